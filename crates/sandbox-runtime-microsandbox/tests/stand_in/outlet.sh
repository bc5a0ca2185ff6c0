#!/bin/sh
# Stands in for `internal outlet FOLDER`: it serves nothing, and leaves in the folder what it saw.
#
#   program-fails  beside it: it ends, and says what is in there
#   seen-life      it lives as long as this is locked
#   seen-number    its process
# Of the link process there is none.
[ "$2" = outlet ] || exit 0
dir=$3
# The lock is of a kind that no command takes: the program of the tests does, and comes back. It writes to its output.
if [ -z "$OUTLET_OF_A_TEST" ]; then
  exec 3>&1 > /dev/null
  OUTLET_OF_A_TEST=$0 OUTLET_FOLDER=$dir exec 'THIS' --exact outlet::its_lock_is_held_as_long_as_it_lives
fi
exec >&3 3>&-
echo $$ > "$dir/seen-number"
exec 9> "$dir/seen-life"
flock 9
tr '\0' '\n' < "/proc/$$/environ" > "$dir/seen-environment"
tr '\0' '\n' < "/proc/$$/cmdline" > "$dir/seen-arguments"
read -r config || exit 1
printf '%s\n' "$config" > "$dir/seen-config"
if [ -f "$0-fails" ]; then cat "$0-fails" >&2; exit 1; fi
# Before anything is asked of msb but what there is.
cat "$dir/../../../calls" > "$dir/seen-calls"
echo '{"relay":"127.0.0.1:4001","resolver":"127.0.0.1:4002"}'
read -r told || exit 0
printf '%s\n' "$told" > "$dir/seen-told"
case "$told" in *null*) exit 0 ;; esac
printf '%s\n' "$told"
pid=${told##*:}
pid=${pid%\}}
# One that has ended and that nobody has waited for has no program.
while readlink "/proc/$pid/exe" > /dev/null 9>&-; do sleep 0.1 9>&-; done
