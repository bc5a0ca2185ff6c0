#!/bin/bash
# Whether microsandbox can save the memory of a sandbox such as ours, so that it could sleep. While it cannot, the
# driver has no `sleep`; once this case fails, it may get one.
. /in/bin/words
export AGENTS_SANDBOX_RUNTIME=microsandbox AGENTS_SANDBOX_AUTO_STOP_TIMEOUT=1h
export MSB_HOME=$HOME/.local/share/agents-sandbox/msb
export MSB_CONFIG_PATH=$MSB_HOME/config.json
msb=$MSB_HOME/bin/msb
mkdir -p "$HOME/shop"
cd "$HOME/shop" || exit 1

# Saves all of a running sandbox, and tells what came of it.
save() { # NAME
  said=$(timeout 300 "$msb" snapshot create whole --sandbox "$1" --full 2>&1 </dev/null); code=$?
  echo "lab: a full snapshot of $1: code $code: $(tail -n 3 <<< "$said" | tr '\n' ' ')"
}

begin a_sandbox_with_our_mounts_cannot_be_saved_with_its_memory
program exec -- sh -c 'echo kept > ~/kept'
must "exit code $code" test "$code" = 0
sandbox=$(agents-sandbox list --names)
save "$sandbox"
must "it can: the driver may sleep now" test "$code" != 0
program exec -- sh -c "cat ~/kept"
must "the attempt did it harm" says kept
program stop -f
end

begin one_without_mounts_can
image=agents-sandbox/content:$(cat /in/place/image-id)
"$msb" create -q --pull never --name plain --cpus 1 --memory 512M --no-net "$image" </dev/null \
  && "$msb" exec -q --no-stdin plain -- true </dev/null
must "it does not start" test $? = 0
save plain
must "it cannot either, so the case before proves nothing" test "$code" = 0
"$msb" stop -q plain </dev/null; "$msb" remove -q plain </dev/null
end

verdict
