#!/bin/sh
# Stands in for `msb`, and misbehaves where a file in its home says so:
#
#   fail-VERB    it fails, and says what is in there: as often as times-VERB has lines, or always
#   hang-VERB    it hangs with a child: both deaf to polite signals, with their outputs open, holding `alive`
#   die-VERB     it is killed
#   list.json    what is listed
#   machines     a create or start begins a machine's process, which a stop ends; it is called as that says, or `machine`
#   guest        the guest program, to which an exec is a link
#   image.json   what it knows of every image
#
# It leaves the last call of each verb in line-VERB and environment-VERB, and what the guest program was told in input-exec.
#
# As the true one it says nothing of a failure where it is told to be quiet.
cd "$MSB_HOME" || exit 1
echo "$1" >> calls
echo "$@" > "line-$1"
tr '\0' '\n' < "/proc/$$/environ" > "environment-$1"
if [ -f "hang-$1" ]; then
  trap '' TERM HUP INT
  exec 9>>alive
  flock -s 9
  echo "$1" >&9
  sleep 600 &
  sleep 600
fi
if [ -f "die-$1" ]; then kill -9 $$; fi
[ "$1" = load ] && cat > /dev/null
case "$*" in exec*" trust") cat > input-exec ;; esac
if [ -f "fail-$1" ] && { [ ! -f "times-$1" ] || [ -s "times-$1" ]; }; then
  [ ! -f "times-$1" ] || sed -i 1d "times-$1"
  case "$1 $2" in "start -q" | "remove -q" | "touch -q") ;; *) cat "fail-$1" >&2 ;; esac
  exit 1
fi

[ "$1" = exec ] && [ -f guest ] && exec ./guest stdio "$PWD/daemon"

named() { # WORDS…: the sandbox of a command line
  for word; do
    [ "$last" = --name ] && { echo "$word"; return; }
    last=$word
  done
  echo "$word"
}
say() { echo "[{\"name\": \"$1\", \"status\": \"$2\"}]" > list.json; }

case "$1 $2" in
  "image inspect") cat image.json ;;
  "image list") echo "[]" ;;
  "list "*)
    # It notices a machine that is gone.
    if [ -f machines ] && case "$(readlink "/proc/$(cat machine.number)/exe")" in */msb) false ;; esac; then
      sed -i s/Running/Crashed/ list.json
    fi
    cat list.json 2>/dev/null || echo "[]" ;;
esac
[ -f machines ] || exit 0
case "$1" in
  create | start)
    name=$(named "$@")
    # Known by its program and its words; it lives as long as `lives` is there, and nobody's outputs depend on it.
    [ -f msb ] || cp /bin/sh msb
    word=$(cat machines)
    word=${word:-machine}
    touch lives
    echo 'while [ -f lives ]; do sleep 0.1; done' > "$word"
    setsid ./msb "$word" --name "$name" >/dev/null 2>&1 </dev/null &
    echo $! > machine.number
    until case "$(readlink "/proc/$!/exe")" in */msb) ;; *) false ;; esac; do sleep 0.05; done
    mkdir -p "sandboxes/$name/runtime"
    date +%s%N > "sandboxes/$name/runtime/runtime-boot-id"
    say "$name" Running ;;
  stop)
    kill -9 "$(cat machine.number)" 2>/dev/null
    say "$(named "$@")" Stopped ;;
esac
exit 0
