#!/bin/sh
# Process 1 of a lab machine, once its disks are there: takes the steps, keeps their logs, cuts the power.
export HOME=/root
mkdir -p /in/logs
ip link set lo up || echo "lab: there is no loopback"
modprobe kvm_amd || echo "lab: there is no kvm_amd"
echo "lab: begin"
sh /in/steps 2>&1 </dev/null
echo "lab: end"
for log in /in/place/contract.log /in/place/agents-sandbox/msb/logs/* /in/program/logs/*; do
  [ -s "$log" ] && cp "$log" /in/logs/
done
sync
umount /in
echo o > /proc/sysrq-trigger
sleep 60
