# Removes the control groups of a machine when the test program has ended, however
# that was: the end of its standard input says so. It runs in a mount name space
# of its own.
#
# usage: sh -c "$(cat sweep.sh)" sweep.sh CGROUP
cat
mount --make-rprivate /
mount -t cgroup2 cgroup2 /tmp || exit 1
# The processes of a machine end with its first one, which takes a moment.
i=0
while [ -d "/tmp/$1" ] && [ $i -lt 1200 ]; do
	find "/tmp/$1" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
	i=$((i + 1))
done
[ ! -d "/tmp/$1" ]
