#!/bin/bash
# What a sandbox on microsandbox reaches, what reaches it, and what becomes of its secret.
. /in/bin/words
export AGENTS_SANDBOX_RUNTIME=microsandbox AGENTS_SANDBOX_AUTO_STOP_TIMEOUT=1h
mkdir -p "$HOME/shop"
cd "$HOME/shop" || exit 1
. /in/bin/beyond

begin what_is_allowed_passes_and_the_rest_stays_shut
page host.agents-sandbox.internal "$open"
must "the open service of this machine is not reached" says "page at 127.0.0.1"
page host.agents-sandbox.internal "$shut"
must "the other service of this machine is reached" test "$code" != 0 -a -z "$said"
page other.example.com 80
must "an allowed name is not reached" says "page at 93.184.216.6"
page shut.example.com 80
must "a name that is not allowed is reached" test "$code" != 0 -a -z "$said"
page denied.example.com 80
must "a name that is allowed and denied is reached" test "$code" != 0 -a -z "$said"
page 93.184.216.7 80
must "an address that is not allowed is reached" test "$code" != 0 -a -z "$said"
must "somebody got through to it" never_heard "93.184.216.7 "
must "nobody heard what was allowed" heard "93.184.216.6 "
end

begin a_port_leads_in_and_only_from_this_machine
serve='use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 1, LocalPort => 8000, ReuseAddr => 1) or die;
  my $c = $s->accept; print $c "hello from the guest\n"'
agents-sandbox exec -- perl -e "$serve" > "$HOME/logs/serve.log" 2>&1 &
client=$!
said= left=120
until [ -n "$said" ] || [ "$left" = 0 ]; do
  said=$(timeout 5 bash -c "exec 3<>/dev/tcp/127.0.0.1/$published && cat <&3" 2>/dev/null) || sleep 1
  left=$((left - 1))
done
must "the guest's server is not reached" says "hello from the guest"
must "it listens beyond loopback" test -z "$(ss -Hltn "sport = :$published" | grep -v '127.0.0.1\|\[::1\]')"
kill $client 2>/dev/null
end

begin folders_of_the_host_are_there_as_they_were_meant
program exec -- cat /read/note
must "the folder to read is not there" says "from the host"
program exec --root -- sh -c 'echo changed > /read/note; echo new > /read/more; echo "from the guest" > /write/made; cat /write/made'
must "nothing can be written where it may be" says "from the guest"
must "what the guest wrote is not here" test "$(cat "$world/write/made")" = "from the guest"
must "root in the guest wrote what is only for reading" test "$(cat "$world/read/note")" = "from the host" -a ! -e "$world/read/more"
end

begin a_secret_goes_to_its_host_alone
program exec -- sh -c 'echo $API_KEY'
must "the guest has something else than the stand-in" test "$said" = '$MSB_API_KEY'
ask api.example.com
must "the host is not reached" says "page at 93.184.216.5"
must "it got something else" heard "Basic $(printf 'user:%s' "$LAB_KEY" | base64)"
ask other.example.com
must "another host got the request" never_heard "93.184.216.6 GET /x"
program exec --root -- sh -c 'cat /proc/[0-9]*/environ /etc/apt/auth.conf /run/* /tmp/* 2>/dev/null | tr "\0" "\n"; true'
must "the guest has no stand-in, so the search proves nothing" says 'MSB_API_KEY'
must "the guest has the value" test "${said/"$LAB_KEY"/}" = "$said"
must "no file names the secret, so the search proves nothing" test -n "$(in_files API_KEY)"
must "files have the value: $(in_files "$LAB_KEY")" test -z "$(in_files "$LAB_KEY")"
end

# `msb` takes values from its environment alone, and its machine has that for as long as it lives.
begin no_process_but_its_machine_shows_a_secret
CONTROL=$LAB_KEY sleep 1000 &
control=$!
until grep -qF CONTROL "/proc/$control/environ"; do sleep 0.1; done
found=$(in_processes "$LAB_KEY")
must "the search does not find what is there" test "${found/"/proc/$control/environ"/}" != "$found"
kill $control; wait $control 2>/dev/null
for place in $(in_processes "$LAB_KEY"); do
  words=$(tr '\0' ' ' < "${place%/*}/cmdline")
  must "$place has the value: ${words:0:150}" test "${place##*/}" = environ -a "${words#*/msb machine --name }" != "$words"
done
end
program stop -f
kill "$outside" "$loopback"
verdict
