# The first process of a booted machine: it makes the machine's file system and
# becomes systemd, or init of sysvinit. It runs in PID, mount, network, UTS and IPC name spaces of its
# own, which end with it, and all mounts and processes with them.
#
# usage: sh -c "$(cat boot.sh)" boot.sh CGROUP
#
# CGROUP is the name of the machine's control group, of version 2. BOOT_SCRIPT is
# this text, and BOOT_ROOT the root directory whose files the machine has. If BOOT_LAYER
# is not empty, descriptor 3 is an archive of changes to these files.
set -eu
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

if [ $# = 1 ]; then
	mount --make-rprivate /
	# Control groups of version 2 may be mounted anywhere, or nowhere.
	mount -t cgroup2 cgroup2 /tmp
	mkdir "/tmp/$1"
	echo 0 >"/tmp/$1/cgroup.procs"
	umount /tmp
	# Only now, for the machine's control groups to begin at its own.
	exec unshare --cgroup sh -c "$BOOT_SCRIPT" boot.sh "$1" inside
fi

# The files of the root directory, with what the machine writes in memory. Other file
# systems of the host are not there, and nothing of its /tmp.
mount -t tmpfs -o mode=755 layers /tmp
mkdir /tmp/upper /tmp/work /tmp/root /tmp/layer
lower=$BOOT_ROOT
if [ -n "$BOOT_LAYER" ]; then # saved on another machine
	tar -C /tmp/layer --xattrs --xattrs-include='trusted.*' -xf - <&3
	exec 3<&-
	lower=/tmp/layer:$BOOT_ROOT
fi
mount -t overlay -o "metacopy=off,lowerdir=$lower,upperdir=/tmp/upper,workdir=/tmp/work" overlay /tmp/root
cd /tmp/root
for d in dev proc run sys tmp; do
	[ -d $d ] || mkdir $d
done

# Of what belongs to the whole kernel the machine may write to the settings of
# its own network, and to nothing else.
mount -t proc -o nosuid,nodev,noexec proc proc
mkdir /tmp/net
mount --bind proc/sys/net /tmp/net
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount --bind /tmp/net proc/sys/net
if [ -e proc/sysrq-trigger ]; then
	mount --bind /dev/null proc/sysrq-trigger
fi
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs run
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs tmp

mount -t tmpfs -o mode=755,nosuid tmpfs dev
mkdir dev/pts dev/shm dev/mqueue
for d in null:3 zero:5 full:7 random:8 urandom:9; do
	mknod -m 666 "dev/${d%:*}" c 1 "${d#*:}"
done
mknod -m 666 dev/tty c 5 0
mknod -m 600 dev/kmsg c 1 3 # /dev/null: the log of the kernel is the host's
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs dev/shm
: >/tmp/console
: >dev/console
mount --bind /tmp/console dev/console

# The machine has one name and two addresses, and no disks to mount.
hostname booted
ip link set lo up
printf '127.0.0.1 localhost booted\n::1 localhost ip6-localhost\n' >etc/hosts
echo booted >etc/hostname
: >etc/fstab
# With an empty one systemd takes this for the first boot ever, and enables what
# the host has not.
printf '%032x\n' 1 >etc/machine-id

# What the machine boots into, in place of the services of the host: terminals,
# timers and those of Debian's PCP are left out.
mkdir -p run/systemd/system run/systemd/journald.conf.d
# What this machine changes can be saved for others.
mkdir -m 700 run/upper
mount --bind /tmp/upper run/upper
printf '[Journal]\nStorage=volatile\nRateLimitBurst=0\nForwardToConsole=no\n' >run/systemd/journald.conf.d/booted.conf
printf '[Unit]\nDescription=Booted\nRequires=basic.target dbus.socket\nAfter=basic.target dbus.socket\nAllowIsolate=yes\n' >run/systemd/system/booted.target
for u in timers.target getty.target console-getty.service systemd-firstboot.service systemd-timesyncd.service \
	systemd-networkd.service systemd-networkd.socket systemd-resolved.service systemd-journal-flush.service \
	systemd-udevd.service systemd-udev-trigger.service sys-kernel-debug.mount sys-kernel-tracing.mount \
	sys-fs-fuse-connections.mount dev-hugepages.mount; do
	ln -s /dev/null "run/systemd/system/$u"
done

pivot_root . .
umount -l .
cd /
for init in /usr/lib/systemd/systemd /lib/systemd/systemd; do
	[ -x $init ] || continue
	mount --make-rshared / # systemd wants to have it so
	exec setpriv --bounding-set -sys_module,-sys_time,-sys_rawio,-syslog \
		env -i container=booted PATH="$PATH" $init --system --unit=booted.target </dev/null >/dev/console 2>&1
done
if ! [ -x /sbin/init ]; then
	echo "there is no systemd in $BOOT_ROOT (run make peers)" >&2
	exit 1
fi
rm -r /run/systemd # its absence says that systemd does not run
: >/run/utmp       # runlevel(8) reads it
printf 'id:2:initdefault:\nl2:2:wait:/etc/init.d/rc 2\n' >/etc/inittab
exec setpriv --bounding-set -sys_module,-sys_time,-sys_rawio,-syslog \
	env -i PATH="$PATH" /sbin/init </dev/null >/dev/console 2>&1
