#!/bin/bash
# Runs dockerd from a folder, in namespaces of its own that end with it: engine.sh ROOT [OPTION...]
#
# The caller starts it by `unshare --mount --pid --fork --kill-child`, with --net where containers run. pivot_root, not
# chroot: `runc exec`, and so each health check, enters the root of the mount namespace. The environment is empty,
# because a TMPDIR that is not in the folder breaks every `docker exec`.
set -eu
root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root"
mkdir -p "$root/.old" "$root/run/lock" "$root/etc/docker" "$root/srv"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
# A version 2 beside version 1 confuses the engine.
umount "$root/sys/fs/cgroup/unified" 2>/dev/null || true
mount --rbind /dev "$root/dev"
cd "$root"
pivot_root . .old
cd /
umount -l /.old
# A killed engine leaves the files of its process numbers, which belong to other processes in the new namespace.
rm -f /run/docker.pid /run/docker.sock /run/docker/containerd/containerd.pid
ip link set lo up 2>/dev/null || true
# This process is the first of its namespace: it collects the processes that lose their parents.
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root /usr/sbin/dockerd -H unix:///run/docker.sock "$@" &
daemon=$!
trap 'kill "$daemon"' TERM INT
while kill -0 "$daemon" 2>/dev/null; do wait "$daemon" || true; done
