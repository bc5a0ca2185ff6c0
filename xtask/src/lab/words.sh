#!/bin/bash
# What cases of the real program share: its settings, and words for a case.
export HOME=/in/program PATH=/in/bin:/usr/sbin:/usr/bin:/sbin:/bin AGENTS_SANDBOX_YES=true
export AGENTS_SANDBOX_MSB_ARCHIVE=/in/place/runtime AGENTS_SANDBOX_MEMORY=512M AGENTS_SANDBOX_CPUS=1
export AGENTS_SANDBOX_AUTO_STOP_TIMEOUT=20s
mkdir -p "$HOME/logs"
# What the program says goes to the console as it comes: a run that hangs has told where.
: > "$HOME/logs/stderr"
tail -n 0 -F "$HOME/logs/stderr" 2>/dev/null > >(sed -u 's/^/lab:   /') &
telling=$!
passed=0 failed=0 began=0 said=
# What the names of its cases begin with.
prefix=program_

# Every case is `begin`, what it does, and `must` about the outcome.
begin() { name=$1 began=$(date +%s) problem=; }
must() { # WHAT COMMAND…
  local what=$1; shift
  "$@" >/dev/null 2>&1 || problem="${problem:+$problem; }$what"
}
end() {
  local took=$(($(date +%s) - began))
  if [ -z "$problem" ]; then
    passed=$((passed + 1)); echo "pass $prefix$name ($took s)"
  else
    failed=$((failed + 1)); echo "FAIL $prefix$name ($took s)"; echo "     $problem"
    printf '%s\n' "$said" | tail -n 12 | sed 's/^/     /'
    lines "$HOME/logs/stderr"
  fi
}
# Runs the program, for ten minutes or $patience seconds; what it prints is $said, its code $code.
program() {
  said=$(timeout "${patience:-600}" agents-sandbox "$@" 2>"$HOME/logs/stderr"); code=$?
  { echo "$ $*"; cat "$HOME/logs/stderr"; } >> "$HOME/logs/program.log"
  [ "$code" = 0 ] || lines "$HOME/logs/stderr"
}
lines() { sed 's/^/     /' "$1" | tail -n 20; }
told() { grep -q -- "$1" "$HOME/logs/stderr"; }
says() { grep -q -- "$1" <<< "$said"; }
status_is() { program list --format json; says "\"status\": \"$1\""; }
wait_for() { # STATUS SECONDS
  local left=$2
  until status_is "$1"; do
    left=$((left - 3)); [ "$left" -gt 0 ] || return 1
    sleep 3
  done
}
# Closes with what the machine's listener waits for.
verdict() { kill $telling; wait $telling 2>/dev/null; echo "$passed passed, $failed failed"; }
