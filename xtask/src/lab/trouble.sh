#!/bin/bash
# What goes wrong with the real microsandbox: an archive that is cut off, a disk that is full, a call that hangs.
. /in/bin/words
export AGENTS_SANDBOX_RUNTIME=microsandbox AGENTS_SANDBOX_AUTO_STOP_TIMEOUT=1h
mkdir -p "$HOME/shop"
cd "$HOME/shop" || exit 1
# A data folder of its own for each case that loads, of so many megabytes.
fresh() { # MEGABYTES
  umount /run/data 2>/dev/null
  mkdir -p /run/data
  mount -t tmpfs -o "size=$1m,mode=0700" tmpfs /run/data
  export XDG_DATA_HOME=/run/data
}

begin a_cut_off_archive_is_refused_and_the_next_one_loads
fresh 1000
touch /run/cut-off
program build
must "exit code $code" test "$code" = 1
must "nobody said what is wrong" told "image archive"
program image list
must "it counts as loaded" test -z "$said"
rm /run/cut-off
program build
must "then exit code $code" test "$code" = 0
end

# It takes more than the runtime, and less than that and the image.
begin a_load_onto_a_full_disk_says_so_and_loads_once_there_is_room
fresh 150
program build
must "exit code $code" test "$code" = 1
must "nobody said what is wrong" told "No space left"
program image list
must "it counts as loaded" test -z "$said"
mount -o remount,size=1000m /run/data
program build
must "then exit code $code" test "$code" = 0
end
umount /run/data
unset XDG_DATA_HOME

begin a_stop_that_hangs_ends_with_a_power_off
program exec -- true
must "exit code $code" test "$code" = 0
{ until stop=$(pgrep -f "bin/msb stop "); do sleep 0.1; done; kill -STOP $stop; } &
program stop
must "stop ended with $code" test "$code" = 0
must "nobody said that it was powered off" told "was powered off"
must "something of the call is left" test -z "$(pgrep -f 'bin/msb stop ')"
must "it is not stopped" status_is stopped
program exec -- echo up
must "then exit code $code" test "$code" = 0
must "the command did not run" says up
program stop -f
end

verdict
