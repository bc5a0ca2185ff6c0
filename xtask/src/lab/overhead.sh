#!/bin/bash
# What our program adds to plain `msb`: both in turn, in one run, as medians and their ratio; and where the rest goes.
export HOME=/in/program PATH=/in/bin:/usr/sbin:/usr/bin:/sbin:/bin AGENTS_SANDBOX_YES=true
export AGENTS_SANDBOX_MSB_ARCHIVE=/in/place/runtime AGENTS_SANDBOX_MEMORY=512M AGENTS_SANDBOX_CPUS=1
export AGENTS_SANDBOX_AUTO_STOP_TIMEOUT=1h AGENTS_SANDBOX_RUNTIME=microsandbox
export MSB_HOME=$HOME/.local/share/agents-sandbox/msb
export MSB_CONFIG_PATH=$MSB_HOME/config.json
msb=$MSB_HOME/bin/msb
# Each comparison has so many rounds, and begins no further one once its time is up.
least=3 most=7
mkdir -p "$HOME/shop" "$HOME/logs" "$HOME/.config/agents-sandbox"
cd "$HOME/shop" || exit 1
exec 3>&1 >"$HOME/logs/overhead.log" 2>&1
# To the console, and into a file that is copied out.
say() { # lines on standard input
  local line
  while IFS= read -r line; do echo "bench: $line" >&3; echo "$line" >> "$HOME/logs/bench.txt"; done
}

# Neither side has a network card.
printf 'network:\n  provider: []\n' > "$HOME/.config/agents-sandbox/config.yaml"

passed=0 failed=0 wrong=0
must() { "$@" </dev/null || { wrong=1; say <<< "failed: $*"; }; }
timed() { # COMMAND…: $took is its milliseconds
  local begin=${EPOCHREALTIME/[.,]/}
  must "$@"
  took=$(((${EPOCHREALTIME/[.,]/} - begin) / 1000))
}
median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }
part() { # NAME COMMAND…
  local what=$1 times=() round; shift
  for round in 1 2 3 4 5; do timed "$@"; times+=("$took"); done
  say <<< "part: $what: $(median "${times[@]}") ms"
}
# Our program, telling what takes how long; of the last time.
ours() { agents-sandbox -l verbose exec -- true 2>"$HOME/logs/steps" || { cat "$HOME/logs/steps"; return 1; }; }
# When each thing that ours tells was told, in a run that is not compared: telling takes time of its own.
told_when() {
  local begin=${EPOCHREALTIME/[.,]/} line
  { agents-sandbox -l verbose exec -- true; echo "it has ended with code $?"; } 2>&1 </dev/null |
    while IFS= read -r line; do
      echo "  after $(((${EPOCHREALTIME/[.,]/} - begin) / 1000)) ms: $line"
    done | say
}
# BEFORE_OURS, then ours; BEFORE_PLAIN, then PLAIN; AFTER_PLAIN: each a command or a function.
compare() { # WHAT SECONDS BEFORE_OURS BEFORE_PLAIN PLAIN AFTER_PLAIN
  local what=$1 ends=$((SECONDS + $2)) one=() other=() round ratio
  wrong=0
  for ((round = 0; round < most; round++)); do
    [ "$round" -lt "$least" ] || [ "$SECONDS" -lt "$ends" ] || break
    must "$3"; timed ours; one+=("$took")
    must "$4"; timed "$5"; other+=("$took")
    must "$6"
  done
  ratio=$(awk "BEGIN { printf \"%.2f\", $(median "${one[@]}") / $(median "${other[@]}") }")
  say <<< "$what: ours $(median "${one[@]}") ms, msb $(median "${other[@]}") ms, ratio $ratio ($round rounds)"
  say <<< "  all: ours ${one[*]}; msb ${other[*]}"
  sed 's/^/  /' "$HOME/logs/steps" | say
  if [ "$wrong" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

must agents-sandbox exec -- true
name=$(agents-sandbox list --names)
say <<< "the first command, with the image and all: $SECONDS s"
image=agents-sandbox/content:$(cat /in/place/image-id)
exec_plain() { "$msb" exec -q --no-stdin "$1" -- true; }
nothing() { :; }
stop_ours() { agents-sandbox stop; }

# What both sides are made of.
part "a question to msb" "$msb" list --format json
part "our program, asking nobody" agents-sandbox version
part "our program, looking at one sandbox" agents-sandbox list --names

exec_in_ours() { exec_plain "$name"; }
compare "a command in a running sandbox" 120 nothing nothing exec_in_ours nothing
told_when
# What the guest program takes to be there and to reach its daemon, which is what a link is above plain `msb exec`:
# where it is, as a copy in the guest's memory or not at all, and from the folder that the host shares.
shared=$MSB_HOME/records/guest
id=$(ls "$shared" | head -n 1)
link_from() { "$msb" exec -q --no-stdin --user root --workdir / "$name" -- "/run/agents-sandbox/$1/sandbox-guest" stdio; }
cp -r "$shared/$id" "$shared/bench"
part "msb exec of \`true\`" exec_in_ours
part "msb exec of a link that ends at once" link_from "$id"
part "msb exec of such a link, fetched anew" link_from bench
rm -r "$shared/bench"

start_and_exec() { "$msb" start -q "$name" && exec_plain "$name"; }
compare "stopped to ready" 200 stop_ours stop_ours start_and_exec nothing
must stop_ours

# The machine's own memory, processor and workspace; ours has a root disk, a home and /tmp of its own besides.
create_and_exec() {
  "$msb" create -q --pull never --name plain --cpus 1 --memory 512M --no-net --mount-dir "$PWD:/workspace" "$image" \
    && exec_plain plain
}
remove_ours() { agents-sandbox stop && agents-sandbox sandbox remove "$name"; }
remove_plain() { "$msb" stop -q plain; "$msb" remove -q plain; }
compare "a new sandbox" 240 remove_ours stop_ours create_and_exec remove_plain
say <<< "$SECONDS s in all"
echo "$passed passed, $failed failed" >&3
