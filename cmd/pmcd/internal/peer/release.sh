# The first process of a Machine with another release's files, in name spaces of
# its own. $1 is the program to be the machine's pmcd, or empty for the release's
# own; $2 the root directory of the release. The machine ends with this process,
# and this process with its standard input.
set -e
mount --make-rprivate /

# The root directory is not changed: what is written is in memory.
mount -t tmpfs -o mode=755 layers /run
mkdir /run/upper /run/work /run/root
mount -t overlay -o "lowerdir=$2,upperdir=/run/upper,workdir=/run/work" overlay /run/root
cd /run/root
if [ -n "$1" ]; then
	cp "$1" usr/lib/pcp/bin/pmcd
	chmod 755 usr/lib/pcp/bin/pmcd
fi
# Agents have time to start on a busy machine.
printf '%s\n' '-q 30' '-t 30' >>etc/pcp/pmcd/pmcd.options
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs -o mode=755 run run
mount -t tmpfs -o mode=1777 tmp var/tmp
mkdir -m 775 run/pcp
mkdir -m 1777 run/lock
# PCP's pmcd looks for agents with IPv6 at "localhost".
printf '127.0.0.1 localhost %s\n::1 localhost\n' "$(uname -n)" >etc/hosts
pivot_root . mnt
umount -l /mnt
chown pcp:pcp /run/pcp

# There are kernels without IPv6.
if [ -e /proc/sys/net/ipv6/conf/lo/disable_ipv6 ]; then
	echo 0 >/proc/sys/net/ipv6/conf/lo/disable_ipv6
fi
ip link set lo up

echo ready
cat # and not exec: the first process has to wait for orphans
