#!/bin/bash
# What a sandbox on microsandbox reaches, and what becomes of its secret.
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
must "an allowed name is not reached" says "page at 203.0.113.6"
page shut.example.com 80
must "a name that is not allowed is reached" test "$code" != 0 -a -z "$said"
page 203.0.113.7 80
must "an address that is not allowed is reached" test "$code" != 0 -a -z "$said"
must "somebody got through to it" never_heard "203.0.113.7 "
must "nobody heard what was allowed" heard "203.0.113.6 "
end

begin a_secret_goes_to_its_host_alone
program exec -- sh -c 'echo $API_KEY'
must "the guest has something else than the stand-in" test "$said" = '$MSB_API_KEY'
ask api.example.com
must "the host is not reached" says "page at 203.0.113.5"
must "it got something else" heard "Basic $(printf 'user:%s' "$LAB_KEY" | base64)"
ask other.example.com
must "another host got the request" never_heard "203.0.113.6 GET /x"
program exec --root -- sh -c 'cat /proc/[0-9]*/environ /etc/apt/auth.conf /run/* /tmp/* 2>/dev/null | tr "\0" "\n"; true'
must "the guest has no stand-in, so the search proves nothing" says 'MSB_API_KEY'
must "the guest has the value" test "${said/"$LAB_KEY"/}" = "$said"
must "no file names the secret, so the search proves nothing" test -n "$(in_files API_KEY)"
must "files have the value: $(in_files "$LAB_KEY")" test -z "$(in_files "$LAB_KEY")"
end
program stop -f
kill "$outside" "$loopback"
verdict
