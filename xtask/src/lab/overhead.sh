#!/bin/bash
# What our program adds to plain `msb`: both in turn, in one run, as medians and their ratio.
export HOME=/in/program PATH=/in/bin:/usr/sbin:/usr/bin:/sbin:/bin AGENTS_SANDBOX_YES=true
export AGENTS_SANDBOX_MSB_ARCHIVE=/in/place/runtime AGENTS_SANDBOX_MEMORY=512M AGENTS_SANDBOX_CPUS=1
export AGENTS_SANDBOX_AUTO_STOP_TIMEOUT=1h AGENTS_SANDBOX_RUNTIME=microsandbox
export MSB_HOME=$HOME/.local/share/agents-sandbox/msb
export MSB_CONFIG_PATH=$MSB_HOME/config.json
msb=$MSB_HOME/bin/msb
rounds=5
mkdir -p "$HOME/shop" "$HOME/logs"
cd "$HOME/shop" || exit 1
exec 3>&1 >"$HOME/logs/overhead.log" 2>&1

# Milliseconds of a command.
timed() { local begin; begin=$(date +%s%N); "$@" </dev/null || echo "bench: failed: $*" >&3; echo $((($(date +%s%N) - begin) / 1000000)); }
median() { sort -n | sed -n "$(((rounds + 1) / 2))p"; }
passed=0
compare() { # WHAT OURS PLAIN
  passed=$((passed + 1))
  echo "bench: $1: ours $2 ms, msb $3 ms, ratio $(awk "BEGIN { printf \"%.2f\", $2 / $3 }")" >&3
}

part() { # NAME COMMAND…
  local name=$1 times=(); shift
  for _ in $(seq $rounds); do times+=("$(timed "$@" | tail -n 1)"); done
  echo "bench: part: $name: $(printf '%s\n' "${times[@]}" | median) ms" >&3
}

agents-sandbox exec -- true
name=$(agents-sandbox list --names)
image=agents-sandbox/content:$(cat /in/place/image-id)
# What ours is made of.
part "a question to msb" "$msb" list --format json
part "our program with one question" agents-sandbox list --names

ours=() plain=()
for _ in $(seq $rounds); do
  ours+=("$(timed agents-sandbox exec -- true | tail -n 1)")
  plain+=("$(timed "$msb" exec -q --no-stdin "$name" -- true | tail -n 1)")
done
compare "a command in a running sandbox" "$(printf '%s\n' "${ours[@]}" | median)" "$(printf '%s\n' "${plain[@]}" | median)"

ours=() plain=()
start_and_exec() { "$msb" start -q "$name" && "$msb" exec -q --no-stdin "$name" -- true; }
for _ in $(seq $rounds); do
  agents-sandbox stop
  ours+=("$(timed agents-sandbox exec -- true | tail -n 1)")
  agents-sandbox stop
  plain+=("$(timed start_and_exec | tail -n 1)")
done
compare "stopped to ready" "$(printf '%s\n' "${ours[@]}" | median)" "$(printf '%s\n' "${plain[@]}" | median)"

ours=() plain=()
create_and_exec() {
  "$msb" create -q --pull never --name plain --cpus 1 --memory 512M --no-net --mount-dir "$PWD:/workspace" "$image" \
    && "$msb" exec -q --no-stdin plain -- true
}
for _ in $(seq $rounds); do
  agents-sandbox stop
  agents-sandbox sandbox remove "$name"
  ours+=("$(timed agents-sandbox exec -- true | tail -n 1)")
  agents-sandbox stop
  plain+=("$(timed create_and_exec | tail -n 1)")
  "$msb" stop -q plain
  "$msb" remove -q plain
done
compare "a new sandbox" "$(printf '%s\n' "${ours[@]}" | median)" "$(printf '%s\n' "${plain[@]}" | median)"
echo "$passed passed, 0 failed" >&3
