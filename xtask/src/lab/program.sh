#!/bin/bash
# The real program, from nothing: on microsandbox, which it must find out by itself, and on QEMU with KVM.
. /in/bin/words
mkdir -p "$HOME/shop"
cd "$HOME/shop" || exit 1

begin first_exec_makes_everything
program exec -- sh -c 'id -un; echo inside > made; touch ~/kept; cat /proc/sys/kernel/random/boot_id > ~/boot'
must "exit code $code" test "$code" = 0
must "it is not dev in there" test "$said" = dev
must "the file of the guest is not there" test "$(cat made)" = inside
must "nobody said which runtime is used" told "sandboxes run on microsandbox"
must "nobody said that no memory is saved" told "stops without saving its memory"
end

begin the_choice_is_remembered
program exec -- true
must "exit code $code" test "$code" = 0
must "it was said again" test ! -s "$HOME/logs/stderr"
program runtime status --format json
must "the status does not say what is used" says '"used": "microsandbox"'
program sandbox inspect
must "the sandbox is elsewhere" says '"runtime": "microsandbox"'
end

begin codes_and_input_arrive
program exec -- sh -c 'exit 7'
must "exit code $code, not 7" test "$code" = 7
said=$(printf 'a\nb\n' | agents-sandbox exec -i -- wc -l 2>"$HOME/logs/stderr")
must "the input did not arrive: $said" test "$said" = 2
said=$(printf 'echo from a shell; exit 3\n' | agents-sandbox shell 2>"$HOME/logs/stderr"); code=$?
must "the shell ended with $code" test "$code" = 3
must "the shell did not run its input" says "from a shell"
end

# Else each command fetches it anew from the folder that the host shares. The numbers are those of FUSE and tmpfs.
begin the_guest_program_is_in_the_guests_memory
program exec -- sh -c 'stat -f -c %t /run/agents-sandbox /run/agents-sandbox/*/sandbox-guest | tr "\n" " "'
must "what is shared and what is in memory: $said" test "$said" = "65735546 1021994 "
end

begin the_keeper_stops_what_nobody_uses
must "it still runs" wait_for stopped 240
end

# From the next start on nothing stops by itself, however slow this machine is.
export AGENTS_SANDBOX_AUTO_STOP_TIMEOUT=1h

# A terminal of its own with a shell of the sandbox; what is written to descriptor 9 is typed there.
mkfifo "$HOME/keys"
open_window() {
  local shell="stty rows 24 cols 80; exec agents-sandbox shell"
  script --quiet --flush --return --command "$shell" "$HOME/window" < "$HOME/keys" > /dev/null 2>&1 &
  window=$!
  exec 9> "$HOME/keys"
}
type_there() { printf '%s\r' "$1" >&9; }
shows() { # TEXT SECONDS
  local left=$2
  until grep -qa -- "$1" "$HOME/window"; do
    left=$((left - 1)); [ "$left" -gt 0 ] || return 1
    sleep 1
  done
}
session_is() { # STATUS SECONDS
  local left=$2
  until program session list --format json; says "\"status\": \"$1\""; do
    left=$((left - 3)); [ "$left" -gt 0 ] || return 1
    sleep 3
  done
}

begin a_shell_outlives_its_closed_window
open_window
must "no prompt" shows "/workspace" 240
type_there 'mark=$((40 + 2)); echo "marked:$mark"'
must "the shell does not run what is typed" shows "marked:42" 60
must "its client is not seen" session_is attached 60
kill -9 $window; wait $window 2>/dev/null
exec 9>&-
must "it is not there without its window" session_is detached 60
open_window
must "nobody is back in it" shows "back in session 1" 60
type_there 'echo "still:$mark"'
must "it is another shell" shows "still:42" 60
type_there 'exit 5'
wait $window; code=$?
exec 9>&-
must "the shell ended with $code" test "$code" = 5
program session list --format json
must "it is still there" test "$said" = "[]"
end

begin the_home_outlives_stop_and_start
program exec -- sh -c 'cat ~/boot /proc/sys/kernel/random/boot_id; ls ~'
must "exit code $code" test "$code" = 0
must "the home is another" says kept
must "it is the boot before" test "$(sed -n 1p <<< "$said")" != "$(sed -n 2p <<< "$said")"
program stop
must "stop ended with $code" test "$code" = 0
must "it is not stopped" status_is stopped
end

begin another_setting_moves_the_sandbox_with_its_home_to_qemu_with_kvm
export AGENTS_SANDBOX_RUNTIME=qemu AGENTS_SANDBOX_QEMU_ACCEL=kvm
program exec -- sh -c 'ls ~; cat /workspace/made'
must "exit code $code" test "$code" = 0
must "the home is another" says kept
must "the workspace is another" says inside
must "nobody said that it moves" told "moves from microsandbox to qemu"
program sandbox inspect
must "the sandbox is elsewhere" says '"runtime": "qemu"'
end

begin every_sandbox_is_found_whatever_is_set
unset AGENTS_SANDBOX_RUNTIME AGENTS_SANDBOX_QEMU_ACCEL
must "it is not listed as running" status_is running
program stop -f
must "stop ended with $code" test "$code" = 0
program list --format json
must "it is still there" test "$said" = "[]"
end

runtimes() { # the processes of microsandbox
  for exe in /proc/[0-9]*/exe; do
    case "$(readlink "$exe")" in */bin/msb) basename "$(dirname "$exe")" ;; esac
  done
}
boots() { for process in $(runtimes); do tr '\0' ' ' < "/proc/$process/cmdline"; done 2>/dev/null | grep -q ' machine '; }

begin a_killed_boot_is_repaired_by_the_next_command
agents-sandbox exec -- true >/dev/null 2>&1 &
client=$!
until boots || ! kill -0 $client; do sleep 0.2; done
must "it ended before its machine was there" kill -0 $client
kill -9 $client
for process in $(runtimes); do kill -9 "$process"; done
program exec -- echo up
must "exit code $code" test "$code" = 0
must "the command did not run" says up
program stop -f
end

verdict
