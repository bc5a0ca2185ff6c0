#!/bin/bash
# What a sandbox reaches, what reaches it, and what becomes of its secret: the same cases on each runtime.
# `network-cases RUNTIME`
. /in/bin/words
export AGENTS_SANDBOX_RUNTIME=$1 AGENTS_SANDBOX_QEMU_ACCEL=kvm AGENTS_SANDBOX_AUTO_STOP_TIMEOUT=1h
prefix=$1_
on() { test "$AGENTS_SANDBOX_RUNTIME" = "$1"; }
mkdir -p "$HOME/shop"
cd "$HOME/shop" || exit 1
. /in/bin/beyond

begin what_is_allowed_passes_and_the_rest_stays_shut
pages "host.agents-sandbox.internal/$open" "host.agents-sandbox.internal/$shut" \
  {other,shut,denied}.example.com/80 93.184.216.7/80
must "exit code $code" test "$code" = 0
must "the open service of this machine is not reached" got "host.agents-sandbox.internal/$open" "page at 127.0.0.1"
must "the other service of this machine is reached" got_nothing "host.agents-sandbox.internal/$shut"
must "an allowed name is not reached" got other.example.com/80 "page at 93.184.216.6"
must "a name that is not allowed is reached" got_nothing shut.example.com/80
must "a name that is allowed and denied is reached" got_nothing denied.example.com/80
must "an address that is not allowed is reached" got_nothing 93.184.216.7/80
must "somebody got through to it" never_heard "93.184.216.7 GET / "
must "nobody heard what was allowed" heard "93.184.216.6 GET / "
must "the other service does not answer at all" here 127.0.0.1 "$shut"
must "what is not allowed does not answer at all" here 93.184.216.7 80
program sandbox inspect
must "the sandbox is elsewhere" says "\"runtime\": \"$AGENTS_SANDBOX_RUNTIME\""
end

begin a_wide_network_opens_neither_this_machine_nor_the_metadata_service
pages 161.0.0.5/80 161.0.0.6/80 "161.0.0.1/$own" 169.254.169.254/80 169.254.170.2/80
must "an address of the network is not reached" got 161.0.0.5/80 "page at 161.0.0.5"
must "an address that is denied in it is reached" got_nothing 161.0.0.6/80
must "this machine's own address is reached" got_nothing "161.0.0.1/$own"
must "the metadata service is reached" got_nothing 169.254.169.254/80
must "a link-local address with an entry of its own is not reached" got 169.254.170.2/80 "page at 169.254.170.2"
must "somebody got through" never_heard "169.254.169.254 GET / "
for place in "161.0.0.6 80" "161.0.0.1 $own" "169.254.169.254 80"; do
  must "$place does not answer at all" here $place
done
end

begin ipv6_is_allowed_and_denied_like_ipv4
six=2606:2800:220:1:
pages six.example.com/80 shut6.example.com/80 $six:5/80 $six:5/8080 $six:7/8080
must "an allowed name is not reached" got six.example.com/80 "page at $six:6"
must "a name that is not allowed is reached" got_nothing shut6.example.com/80
must "a port without an entry is reached" got_nothing $six:5/80
must "an address that is not allowed is reached" got_nothing $six:7/8080
must "somebody got through to it" never_heard "$six:7 GET / "
must "what is not allowed does not answer at all" here $six:7 8080
must "the other port does not answer at all" here $six:5 80
must "an allowed address is not reached" got $six:5/8080 "page at $six:5"
plain_lines $six:5/7001 $six:7/7001
must "an allowed address is not reached with a line" got $six:5/7001 "line at $six:5"
must "an address that is not allowed is reached with a line" got_nothing $six:7/7001
must "somebody got through to it with a line" never_heard "$six:7 line"
must "it answers no line at all" timeout 10 bash -c "exec 3<>/dev/tcp/$six:7/7001 && printf 'from here\r\n' >&3 && grep -q 'line at' <&3"
end

begin datagrams_and_pings_obey_the_same_entries
datagrams 93.184.216.6/7000 93.184.216.7/7000 $six:5/7000 $six:7/7000
must "an allowed address gets no datagram" got 93.184.216.6/7000 "datagram at 93.184.216.6"
must "one that is not allowed answers" got_nothing 93.184.216.7/7000
must "an allowed address gets no datagram over IPv6" got $six:5/7000 "datagram at $six:5"
must "one that is not allowed answers over IPv6" got_nothing $six:7/7000
must "it heard something" never_heard "93.184.216.7 datagram"
must "it heard something over IPv6" never_heard "$six:7 datagram"
# The door that is shut for the guest alone.
timeout 8 bash -c "echo from here > /dev/udp/93.184.216.7/7000"
timeout 20 bash -c "until grep -q '93.184.216.7 datagram from here' '$HOME/logs/beyond.log'; do sleep 0.2; done"
must "it hears nobody at all" heard "93.184.216.7 datagram from here"
pings 161.0.0.5 161.0.0.6
must "an allowed address does not answer a ping" got 161.0.0.5 answer
must "a denied one answers a ping" got_nothing 161.0.0.6
end

begin a_name_that_leads_inside_does_not_resolve
resolved {rebind,meta,loop,shut,intranet}.example.com
for closed in rebind meta loop shut; do
  must "$closed resolves" says "^$closed.example.com: *$"
done
must "a name for an address that is allowed does not resolve" says "^intranet.example.com: 10.77.0.6"
pages {rebind,meta,intranet}.example.com/80 10.77.0.5/80
must "it is not reached" got intranet.example.com/80 "page at 10.77.0.6"
must "a name leads to the company's network" got_nothing rebind.example.com/80
must "a name leads to the metadata service" got_nothing meta.example.com/80
must "the company's network is reached" got_nothing 10.77.0.5/80
must "somebody got through" never_heard "10.77.0.5 GET / "
must "what is inside does not answer at all" here 10.77.0.5 80
end

begin another_name_at_an_allowed_address_stays_shut
pages other.example.com/80 93.184.216.6/80/shut.example.com 93.184.216.6/80/other.example.com
must "the name is not reached" got other.example.com/80 "page at 93.184.216.6"
must "another name is reached at its address" got_nothing 93.184.216.6/80/shut.example.com
must "its server heard of it" never_heard "Host: shut.example.com"
must "the name is not reached by its address" got 93.184.216.6/80/other.example.com "page at 93.184.216.6"
fetch other.example.com
must "the name is not reached over TLS" says "page at 93.184.216.6"
fetch shut.example.com 93.184.216.6
must "another name is reached over TLS at its address" never_heard "Host: shut.example.com"
must "its server has no page for that name at all" here_in_tls 93.184.216.6 shut.example.com
end

begin a_resolver_inside_of_tls_is_no_way_around
pages 93.184.216.6/8853 93.184.216.6/853
must "the port beside is not reached" got 93.184.216.6/8853 "page at 93.184.216.6"
must "the port of DNS over TLS leads to its server" got_nothing 93.184.216.6/853
must "the port of DNS over TLS does not answer at all" here 93.184.216.6 853
# One over https, by its name, and by its address as programs with a resolver built in find it.
fetch shut.example.com
fetch shut.example.com 93.184.216.7
must "a resolver over https without an entry is reached" never_heard "93.184.216.7 GET /y"
must "it does not answer at all" here_in_tls 93.184.216.7 shut.example.com
end

# What listens on the guest's loopback, for as long as the client lives.
serve='use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1", LocalPort => 8000, ReuseAddr => 1) or die;
  while (my $c = $s->accept) { print $c "hello from the guest\n"; close $c }'
serving() { agents-sandbox exec -- perl -e "$serve" > "$HOME/logs/serve.log" 2>&1 & client=$!; }
# What comes in from an address and a port of this machine, once somebody listens in the guest.
greeting() {
  said= left=90
  until [ -n "$said" ] || [ "$left" = 0 ]; do
    said=$(timeout 5 bash -c "exec 3<>/dev/tcp/$1/$2 && cat <&3" 2>/dev/null)
    left=$((left - 1))
    [ -n "$said" ] || sleep 1
  done
}
beyond_loopback() { ss -Hltn "sport = :$1" | grep -v '127.0.0.1\|\[::1\]'; }

begin a_port_leads_in_and_only_from_this_machine
serving
for address in 127.0.0.1 ::1; do
  greeting $address "$published"
  must "the guest's server is not reached at $address" says "hello from the guest"
done
must "it listens beyond loopback" test -z "$(beyond_loopback "$published")"
kill $client 2>/dev/null
end

begin folders_of_the_host_are_there_as_they_were_meant
program exec -- cat /read/note
must "the folder to read is not there" says "from the host"
program exec --root -- sh -c 'echo changed > /read/note; echo new > /read/more; echo "from the guest" > /write/made; cat /write/made'
must "nothing can be written where it may be" says "from the guest"
must "what the guest wrote is not here" test "$(cat "$world/write/made")" = "from the guest"
must "root in the guest wrote what is only for reading" test "$(cat "$world/read/note")" = "from the host" -a ! -e "$world/read/more"
if on qemu; then
  program exec --root -- sh -c 'cat /etc/single; echo changed > /etc/single'
  must "the single file is not there" says "one file"
  must "root in the guest wrote a file that is only for reading" test "$(cat "$world/one")" = "one file"
fi
end

begin a_secret_goes_to_its_host_alone
program exec -- sh -c 'echo $API_KEY'
must "the guest has something else than the stand-in" test "$said" = '$MSB_API_KEY'
ask api.example.com
must "the host is not reached" says "page at 93.184.216.5"
must "it got something else" heard "Basic $(printf 'user:%s' "$LAB_KEY" | base64)"
ask other.example.com
must "another host got the request" never_heard "93.184.216.6 GET /x"
program exec -- bash -c 'exec 3<>/dev/tcp/api.example.com/80 &&
  printf "GET /plain HTTP/1.0\r\nHost: api.example.com\r\nAuthorization: Bearer %s\r\n\r\n" "$API_KEY" >&3 && timeout 20 cat <&3'
must "nothing went out without TLS" heard "GET /plain"
must "the value went out without TLS" never_heard "Bearer $LAB_KEY"
must "the guest sees the value in an answer" test "${said/"$LAB_KEY"/}" = "$said"
pages api.example.com/80
must "its host is not reached without TLS at all" got api.example.com/80 "page at 93.184.216.5"
program exec --root -- sh -c 'cat /proc/[0-9]*/environ /etc/apt/auth.conf /run/* /tmp/* 2>/dev/null | tr "\0" "\n"; true'
must "the guest has no stand-in, so the search proves nothing" says 'MSB_API_KEY'
must "the guest has the value" test "${said/"$LAB_KEY"/}" = "$said"
must "no file names the secret, so the search proves nothing" test -n "$(in_files API_KEY)"
must "files have the value: $(in_files "$LAB_KEY")" test -z "$(in_files "$LAB_KEY")"
end

begin a_secret_goes_into_a_query_and_a_body_where_that_was_asked_for
post api.example.com '$MSB_API_WORD' 'word=$MSB_API_WORD'
must "the host is not reached" says "page at 93.184.216.5"
must "the query has something else" heard "POST /form?word=$LAB_WORD HTTP/1.1"
must "the body has something else" heard "word=$LAB_WORD"
must "the guest reads the value in the answer" test "${said/"$LAB_WORD"/}" = "$said"
# The other secret is for headers alone.
post api.example.com '$MSB_API_KEY' 'key=$MSB_API_KEY'
must "a secret for headers is in a query" never_heard "word=$LAB_KEY"
must "a secret for headers is in a body" never_heard "key=$LAB_KEY"
post other.example.com word 'word=$MSB_API_WORD'
post other.example.com word "word=harmless"
must "another host is not reached at all" heard "word=harmless"
must "another host got the value" test -z "$(grep -A 12 "^93.184.216.6 POST" "$HOME/logs/beyond.log" | grep -F "$LAB_WORD")"
end

begin another_value_counts_without_a_restart
boot() { program exec -- cat /proc/sys/kernel/random/boot_id; }
boot
before=$said former=$LAB_KEY
LAB_KEY=sk-$(od -An -N12 -tx4 /dev/urandom | tr -d ' ')
(umask 077; printf '%s\n' "$LAB_KEY" > "$HOME/lab-key")
boot
must "nobody says that it is another" told "another value from now on, without a restart: API_KEY"
must "it booted again" test "$said" = "$before"
ask api.example.com
must "the host is not reached" says "page at 93.184.216.5"
must "it got the former value" heard "Basic $(printf 'user:%s' "$LAB_KEY" | base64)"
must "files have the former value: $(in_files "$former")" test -z "$(in_files "$former")"
end

begin no_process_shows_a_secret
CONTROL=$LAB_KEY sleep 1000 &
control=$!
until grep -qF CONTROL "/proc/$control/environ"; do sleep 0.1; done
found=$(in_processes "$LAB_KEY")
must "the search does not find what is there" test "${found/"/proc/$control/environ"/}" != "$found"
kill $control; wait $control 2>/dev/null
for value in "$LAB_KEY" "$LAB_WORD"; do
  for place in $(in_processes "$value"); do
    words=$(tr '\0' ' ' < "${place%/*}/cmdline")
    must "$place has the value: ${words:0:150}" false
  done
done
end

begin what_was_refused_is_told
program network log --format json
must "exit code $code" test "$code" = 0
for subject in shut.example.com denied.example.com; do
  must "$subject is not told" says "$subject"
done
must "the rule is not told" says 'egress-deny has `denied.example.com`'
must "what was allowed is not told" says '"verdict": "allowed"'
must "an allowed connection is not told" says '"name": "other.example.com"'
if on qemu; then
  for subject in rebind.example.com 93.184.216.7:80 169.254.169.254:80; do
    must "$subject is not told" says "$subject"
  done
fi
end

begin a_port_opens_and_closes_while_it_runs
live=$(free)
serving
program ports add "$live:8000"
must "exit code $code" test "$code" = 0
program ports list
must "it is not listed" says "127.0.0.1:$live"
for address in 127.0.0.1 ::1; do
  greeting $address "$live"
  must "the guest's server is not reached at $address" says "hello from the guest"
done
must "it listens beyond loopback" test -z "$(beyond_loopback "$live")"
program ports remove "$live"
must "exit code $code" test "$code" = 0
must "it listens all the same" test -z "$(ss -Hltn "sport = :$live")"
greeting 127.0.0.1 "$published"
must "the other port is gone too" says "hello from the guest"
kill $client 2>/dev/null
end

# Requests to the agent by their numbers: the first byte of each answer, and what of it can be read.
talk='use IO::Socket::UNIX; my $s = IO::Socket::UNIX->new($ENV{SSH_AUTH_SOCK}) or die "no agent: $!\n"; $s->autoflush(1);
  for my $n (@ARGV) { print $s pack("N/a*", chr $n); read($s, my $l, 4) == 4 or die "it ended\n"; read($s, my $m, unpack("N", $l));
    my $first = ord $m; $m =~ s/[^ -~]+/ /g; print "$n: $first $m\n" }'

# The guest makes a repository in the workspace, and a commit in it; this machine verifies that one's signature.
commit='cd /workspace && rm -rf signed && git init --quiet signed && cd signed &&
  git -c user.name=a -c user.email=a@b commit --quiet --allow-empty -m made'
verified() { git -c safe.directory='*' -C signed verify-commit HEAD 2>&1 | grep -q 'Good "git" signature for a@b'; }
unverified() { git -c safe.directory='*' -C signed log -1 --format=%s | grep -qx made && ! verified; }
# The key of a person, whose git signs all commits with it. Its private half stays in an agent.
rm -f "$world/key" "$world/keys"
ssh-keygen -q -t ed25519 -N "" -C me@lab -f "$world/key"
echo "a@b $(cat "$world/key.pub")" > "$world/allowed"
cat > "$world/gitconfig" <<CONFIG
[gpg]
format = ssh
[gpg "ssh"]
allowedSignersFile = $world/allowed
[user]
signingkey = $world/key.pub
[commit]
gpgsign = true
CONFIG
export GIT_CONFIG_GLOBAL=$world/gitconfig

begin the_users_ssh_agent_is_lent_where_it_was_asked_for_and_only_for_keys_and_signatures
program exec -- sh -c 'echo "[$SSH_AUTH_SOCK]"; ls -d /run/agents-sandbox*/*sock* 2>/dev/null; true'
must "a sandbox has an agent that was not asked for" test "$said" = "[]"
program exec -- sh -c "$commit"
must "a commit is signed that was not to be" unverified
program stop --cold
must "stop ended with $code" test "$code" = 0
# From here on there is no secret.
rm "$HOME/.config/agents-sandbox/env.secret.yaml"
settings
printf 'ssh: { agent: true }\ngit: { signing: true }\n' >> "$HOME/.config/agents-sandbox/config.yaml"
: > "$HOME/logs/ssh-agent-stand-in.log"
rm -f "$world/agent"
/in/bin/ssh-agent-stand-in "$world/agent" "$HOME/logs/ssh-agent-stand-in.log" 2> "$HOME/logs/ssh-agent-stand-in.err" &
agent=$!
until [ -S "$world/agent" ] || ! kill -0 $agent; do sleep 0.1; done
SSH_AUTH_SOCK=$world/agent program exec -- perl -e "$talk" 11 19 11
must "exit code $code" test "$code" = 0
must "its keys are not listed" says "^11: 12 .*me@lab"
must "it is told to forget its keys" says "^19: 5"
must "the agent heard nothing" grep -qx "request 11" "$HOME/logs/ssh-agent-stand-in.log"
must "the agent heard more than lists" test -z "$(grep -vx "request 11" "$HOME/logs/ssh-agent-stand-in.log")"
program logs ssh-agent
must "nobody keeps a record of it" says "listed 1 key"
must "the refusal is not in it" says "refused: remove keys"
kill $agent; wait $agent 2>/dev/null
SSH_AUTH_SOCK=$world/agent program exec -- perl -e "$talk" 11
must "an agent that is gone lists keys" test "$code" != 0 -a -z "$said"
end

begin commits_are_signed_with_the_users_agent_where_that_was_asked_for
ssh-agent -D -a "$world/keys" > /dev/null 2> "$HOME/logs/ssh-agent.err" &
agent=$!
until [ -S "$world/keys" ] || ! kill -0 $agent; do sleep 0.1; done
SSH_AUTH_SOCK=$world/keys ssh-add -q "$world/key"
SSH_AUTH_SOCK=$world/keys program exec -- sh -c "$commit"
must "exit code $code" test "$code" = 0
must "its signature is not that of the person's key" verified
program logs ssh-agent
must "nobody keeps a record of it" says "signed with me@lab .*: a signature for git"
kill $agent; wait $agent 2>/dev/null
SSH_AUTH_SOCK=$world/keys program exec -- sh -c "$commit"
must "a commit is made without the agent that is to sign it" test "$code" != 0
rm -rf signed
end

# What one of the runtimes cannot do is said, and not left out.
if on microsandbox; then
  begin a_single_file_is_refused_before_anything_starts
  program stop
  settings "$single"
  program exec -- true
  must "exit code $code, not 1" test "$code" = 1
  must "nobody says why" told "no single files"
  must "it runs" status_is stopped
  settings
  end
fi

# The proxy knows a name that this machine does not.
begin connections_leave_through_the_proxy_by_name_where_there_is_one
: > "$HOME/logs/proxy.log"
ip netns exec world /in/bin/company-proxy "$names,inside.example.com=93.184.216.7" "$HOME/logs/proxy.log" 93.184.216.5:3128 \
  > "$world/proxy" 2> "$HOME/logs/proxy.err" &
proxy=$!
until [ -s "$world/proxy" ] || ! kill -0 $proxy; do sleep 0.2; done
program stop --cold
pages other.example.com/80 inside.example.com/80
must "without a proxy an allowed name is not reached" got other.example.com/80 "page at 93.184.216.6"
must "without a proxy a name is reached that this machine does not know" got_nothing inside.example.com/80
must "the proxy heard something" test ! -s "$HOME/logs/proxy.log"
program stop --cold
export HTTP_PROXY=http://me:hunter22@93.184.216.5:3128 HTTPS_PROXY=http://me:hunter22@93.184.216.5:3128
pages {other,inside,shut}.example.com/80 93.184.216.6/8853
must "an allowed name is not reached" got other.example.com/80 "page at 93.184.216.6"
must "a name is not reached that only the proxy knows" got inside.example.com/80 "page at 93.184.216.7"
must "a name that is not allowed is reached" got_nothing shut.example.com/80
must "an allowed address is not reached" got 93.184.216.6/8853 "page at 93.184.216.6"
for asked in "GET http://other.example.com/ HTTP/1.0" "GET http://inside.example.com/ HTTP/1.0"; do
  must "the proxy was not asked: $asked" grep -qxF "$asked" "$HOME/logs/proxy.log"
done
fetch other.example.com
# Whether the guest trusts whom it finds there is its own matter.
must "the proxy was not asked for TLS by name" grep -q "^CONNECT other.example.com:443 " "$HOME/logs/proxy.log"
must "it was asked for what is not allowed" test -z "$(grep shut.example.com "$HOME/logs/proxy.log")"
must "files have its password: $(in_files hunter22)" test -z "$(in_files hunter22)"
found=$(unset HTTP_PROXY HTTPS_PROXY; in_processes hunter22)
must "processes have its password: $found" test -z "$found"
kill $proxy; wait $proxy 2>/dev/null
pages other.example.com/80
must "it leaves though the proxy is gone" got_nothing other.example.com/80
unset HTTP_PROXY HTTPS_PROXY
program stop --cold
end

# Each closes what another one opens.
begin a_profile_opens_its_class_and_nothing_else
mv .agents-sandbox/config.yaml "$world/config.yaml"
for profile in public private host none; do
  program stop --cold
  printf 'network: { profile: %s, provider: [] }\n' "$profile" > .agents-sandbox/config.yaml
  pages 93.184.216.7/80 10.77.0.5/80 "host.agents-sandbox.internal/$shut" 169.254.169.254/80 "161.0.0.1/$own"
  must "$profile: exit code $code" test "$code" = 0
  case $profile in
    public) open_for=93.184.216.7/80 page="page at 93.184.216.7" ;;
    private) open_for=10.77.0.5/80 page="page at 10.77.0.5" ;;
    host) open_for="host.agents-sandbox.internal/$shut" page="page at 127.0.0.1" ;;
    none) open_for= ;;
  esac
  for place in 93.184.216.7/80 10.77.0.5/80 "host.agents-sandbox.internal/$shut" 169.254.169.254/80 "161.0.0.1/$own"; do
    if [ "$place" = "$open_for" ]; then
      must "$profile does not open $place" got "$place" "$page"
    else
      must "$profile opens $place" got_nothing "$place"
    fi
  done
done
mv "$world/config.yaml" .agents-sandbox/config.yaml
end

# The network beside this machine stays where it is, for both versions of IP.
begin ipv4_is_there_without_a_way_out_or_its_lack_is_told
program stop --cold
must "stop ended with $code" test "$code" = 0
ip route del default dev outside
program exec -- true
must "exit code $code" test "$code" = 0
lack=$(grep -o "no route over IPv4" "$HOME/logs/stderr")
pages six.example.com/80 "host.agents-sandbox.internal/$open" "host.agents-sandbox.internal/$shut" other.example.com/80
must "an allowed name is not reached over IPv6" got six.example.com/80 "page at $six:6"
must "the open service of this machine is not reached" got "host.agents-sandbox.internal/$open" "page at 127.0.0.1"
must "the other service of this machine is reached" got_nothing "host.agents-sandbox.internal/$shut"
if on qemu; then
  must "somebody says that it lacks something" test -z "$lack"
  must "an allowed name is not reached over IPv4" got other.example.com/80 "page at 93.184.216.6"
else
  must "nobody says what is missing" test -n "$lack"
  # Where this fails, it need not be said.
  must "IPv4 is there" got_nothing other.example.com/80
fi
end

program stop -f
leave_world
verdict
