# The first process of a Machine, in name spaces of its own. $1 is the program
# to be the machine's pmcd. The machine ends with this process, and this process
# with its standard input.
set -e
mount --make-rprivate /
mount --bind "$1" /usr/lib/pcp/bin/pmcd
mount -t proc proc /proc

# /run is empty at the start of a machine, too.
mount -t tmpfs -o mode=755 run /run
mkdir -m 775 /run/pcp
chown pcp:pcp /run/pcp

# What PCP's scripts write to is copied: /var/lib/pcp without its tests, as
# they are big, and without a socket of the real machine's pmdaroot.
copy=/run/copy
mkdir $copy $copy/var
cp -a /etc/pcp $copy/etc
cp -a /var/log/pcp $copy/log
for d in config pmcd pmdas pmns tmp; do
	cp -a /var/lib/pcp/$d $copy/var
done
rm -f $copy/var/pmcd/root.socket
# The directories of agents are full of links to here, and compilers write
# through links.
cp -a /usr/lib/pcp/pmdas $copy/pmdas

# Agents have time to start on a busy machine.
printf '%s\n' '-q 30' '-t 30' >>$copy/etc/pmcd/pmcd.options

# PCP's pmcd looks for agents with IPv6 at "localhost".
printf '127.0.0.1 localhost %s\n::1 localhost\n' "$(uname -n)" >$copy/hosts

# Nothing else may change: not the files of the real machine.
mount -o remount,bind,ro /
mount --bind $copy/etc /etc/pcp
mount --bind $copy/log /var/log/pcp
mount --bind $copy/var /var/lib/pcp
mount --bind $copy/pmdas /usr/lib/pcp/pmdas
mount --bind $copy/hosts /etc/hosts
mount -t tmpfs -o mode=1777 tmp /var/tmp

# There are kernels without IPv6.
if [ -e /proc/sys/net/ipv6/conf/lo/disable_ipv6 ]; then
	echo 0 >/proc/sys/net/ipv6/conf/lo/disable_ipv6
fi
ip link set lo up

echo ready
cat # and not exec: the first process has to wait for orphans
