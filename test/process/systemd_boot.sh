#!/usr/bin/env bash
# Makes a root out of this machine's own files and starts its systemd there as process 1. Nothing reaches the real files.
# Run in new namespaces (mount, pid, net, ipc, uts, cgroup): systemd_boot.sh EMPTY_FOLDER SHARED_FOLDER…
set -euo pipefail
scratch=$1
shift

mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$scratch"
cd "$scratch"
mkdir upper work root
mount -t overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" overlay root
cd root
mount -t proc -o nosuid,nodev,noexec proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
  touch "dev/$name"
  mount --bind "/dev/$name" "dev/$name"
done
mkdir dev/shm dev/pts dev/mqueue dev/hugepages
mount -t tmpfs tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
# A card that is none (/dev/full under another number would not do: every service may open that one): fuse.
mknod -m 666 dev/nvidia0 c 10 229
mknod -m 666 dev/foreign c 10 229
for folder in "$@"; do
  mkdir -p "./$folder"
  mount --bind "$folder" "./$folder"
done

# Only the journal and the service under test start. The others would set up this machine's kernel and devices.
rm -rf etc/systemd/system/* usr/lib/systemd/system/{sysinit,local-fs,basic,multi-user,timers,graphical}.target.wants
rm -rf etc/verk var/lib/verk etc/fstab
echo 0123456789abcdef0123456789abcdef >etc/machine-id
mkdir -p old
pivot_root . old
umount -l old
mount --make-rshared / # as on a real machine: credentials reach a service as a mount
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=basic.target \
  --log-target=journal --show-status=0
