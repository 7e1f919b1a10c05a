#!/bin/sh
# slurm.sh DIR SBIN SLURMSTEPD: munged, slurmctld and two slurmd, until a signal comes. A daemon that ends is started
# again unless DIR/down.NAME exists; its process id is in DIR/NAME.pid. At the end all processes of the cluster are
# killed with their jobs: each has SLURM_CONF in its environment.
# slurm.sh keep DIR NAME COMMAND…: keeps one daemon.
if [ "$1" = keep ]; then
  dir=$2 name=$3
  shift 3
  while :; do
    if [ ! -e "$dir/down.$name" ]; then
      setpriv --pdeathsig KILL -- "$@" >>"$dir/$name.out" 2>&1 &
      echo $! >"$dir/$name.pid.new" && mv "$dir/$name.pid.new" "$dir/$name.pid"
      wait $!
    fi
    sleep 0.1
  done
fi
dir=$1 sbin=$2 stepd=$3
export SLURM_CONF="$dir/slurm.conf"
keep() { setpriv --pdeathsig KILL -- sh "$0" keep "$dir" "$@" & }
finish() {
  for each in /proc/[0-9]*; do
    pid=${each#/proc/}
    [ "$pid" = $$ ] && continue
    if grep -qzxF "SLURM_CONF=$SLURM_CONF" "$each/environ" 2>/dev/null; then kill -KILL "$pid" 2>/dev/null; fi
  done
  exit 0
}
trap finish TERM INT HUP
keep munged "$sbin/munged" --foreground --force --key-file="$dir/munge/key" --socket="$dir/munge.sock" \
  --pid-file="$dir/munge/pid" --log-file="$dir/munge/log" --seed-file="$dir/munge/seed"
while [ ! -S "$dir/munge.sock" ]; do sleep 0.05; done
keep slurmctld "$sbin/slurmctld" -D -f "$SLURM_CONF"
for node in n1 n2; do keep "$node" "$sbin/slurmd" -D -N "$node" -f "$SLURM_CONF" -d "$stepd"; done
while :; do wait; sleep 1; done
