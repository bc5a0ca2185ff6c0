#!/bin/bash
# Docker inside of a sandbox on microsandbox: an image is built, its container runs, and another is pulled through the
# sandbox's policy. What the engine takes its time for is emulated twice here.
. /in/bin/words
export AGENTS_SANDBOX_RUNTIME=microsandbox AGENTS_SANDBOX_MEMORY=1G AGENTS_SANDBOX_AUTO_STOP_TIMEOUT=1h
echo docker > /run/image
mkdir -p "$HOME/box/.agents-sandbox" "$HOME/box/inner" "$HOME/.config/agents-sandbox"
cd "$HOME/box" || exit 1
# A sandbox has IPv4 where this machine knows a way to this address.
ip address add 192.0.2.1/32 dev lo

# Two registries on this machine; one of them is open.
declare -A port served
for which in open shut; do
  : > "$HOME/logs/registry-$which.log"
  /in/bin/registry "$HOME/logs/registry-$which.log" > "$HOME/$which" 2> "$HOME/logs/registry-$which.err" &
  served[$which]=$!
  until [ -s "$HOME/$which" ] || ! kill -0 "${served[$which]}"; do sleep 0.1; done
  port[$which]=$(cat "$HOME/$which")
done
cat > .agents-sandbox/config.yaml <<YAML
docker: true
network:
  provider: []
  egress-allow: ["host:${port[open]}"]
YAML
host=host.agents-sandbox.internal

# The engine has 30 s, which are meant for a processor that is there. One that takes longer stays and is waited for
# again, by each command.
engine_answers() {
  local round
  for round in 1 2 3 4 5 6 7 8 9 10; do
    program exec -- docker info --format '{{.Driver}}'
    [ "$code" != 0 ] || return 0
  done
  return 1
}

begin the_engine_keeps_overlays_on_the_sandboxes_disk
must "it does not answer" engine_answers
program exec -- sh -c 'id -un; docker info --format "{{.Driver}}"'
must "exit code $code" test "$code" = 0
must "not dev, or no overlays" test "$said" = $'dev\noverlay2'
end

begin an_image_is_built_and_run
# An image of what the guest itself has: no registry is needed.
program exec -- bash -c 'programs="/bin/bash /bin/cat"
  tar -chf - $programs $(ldd $programs | grep -o "/lib[^ )]*" | sort -u) | docker import - base'
must "import ended with $code" test "$code" = 0
printf 'FROM base\nRUN ["/bin/bash", "-c", "echo built > /made"]\nCOPY file /\n' > inner/Dockerfile
echo copied > inner/file
program exec -- docker build --tag made inner
must "build ended with $code" test "$code" = 0
program exec -- docker run --rm -v /workspace:/w made /bin/cat /made /file /w/inner/file
must "run ended with $code" test "$code" = 0
must "it is another image, or another workspace" test "$said" = $'built\ncopied\ncopied'
end

begin a_container_reaches_what_its_sandbox_does_and_pulls_obey_the_policy
gateway=$(agents-sandbox exec -- getent ahostsv4 $host 2>/dev/null | head -n 1 | cut -d ' ' -f 1)
for which in open shut; do
  program exec -- docker run --rm made /bin/bash -c "exec 3<>/dev/tcp/$gateway/${port[$which]} && echo reached"
  [ $which = open ] && must "what is open is not reached" says reached
  [ $which = shut ] && must "what is shut is reached" test "$code" != 0 -a -z "$said"
done
program exec -- docker pull --quiet "$host:${port[open]}/hello"
must "the open registry's image is not pulled: $code" test "$code" = 0
program exec -- sh -c "id=\$(docker create $host:${port[open]}/hello none) && docker cp \$id:/hello - | tar -xO"
must "it is another image" test "$said" = pulled
program exec -- docker pull --quiet "$host:${port[shut]}/hello"
must "an image is pulled from the registry that is shut" test "$code" != 0
must "nobody heard what was allowed" test -s "$HOME/logs/registry-open.log"
must "something got through to the one that is shut" test ! -s "$HOME/logs/registry-shut.log"
must "that one does not answer at all" timeout 10 bash -c \
  "exec 3<>/dev/tcp/127.0.0.1/${port[shut]} && printf 'GET /v2/ HTTP/1.0\r\n\r\n' >&3 && grep -q '^HTTP/1.. 200' <&3"
end

begin what_the_engine_holds_outlives_a_stop
program stop --cold
must "stop ended with $code" test "$code" = 0
must "it does not come back" engine_answers
program exec -- docker run --rm made /bin/cat /made
must "exit code $code" test "$code" = 0
must "the image is gone" test "$said" = built
program stop -f
end

kill "${served[@]}"
verdict
