#!/bin/sh
# swap-pmcd - put this pmcd in the place of the installed PCP's, and back.
#
# usage: swap-pmcd [-q] [-b FILE] [-r ROOT] in|out|update|status
# usage: swap-pmcd [-q] [-b FILE] check [--compare TIME [--agent NAME]...] [--exclude SUBTREE]...
# usage: swap-pmcd [-q] [-b FILE] in --trial TIME [--exclude SUBTREE]...
# usage: swap-pmcd [-q] [-b FILE] keep
#
#   in      PCP's scripts and units start this pmcd
#   out     they start PCP's again
#   update  "in" again, after an upgrade of this one or of PCP; nothing after "out"
#   status  which one they start: exit status 0 is this one, 1 PCP's, 3 neither
#   check   what "in" would meet; nothing changes
#   --trial PCP's unit starts this pmcd, until TIME is over or something is worse than
#           before. No program or configuration changes
#   keep    "in", instead of the end of a trial
#   -q      say nothing if nothing is wrong
#   -b FILE this pmcd [the one that was installed, or built, with this script]
#   -r ROOT work on the system that is installed below ROOT
#
# On Debian and its like the file is diverted (dpkg-divert(1)), so that upgrades
# of PCP go past this pmcd. Elsewhere PCP's is kept as a copy and an upgrade
# brings it back: do "update". A pmcd that runs goes on: restart it. "out" works
# after PCP was removed, too: what is left of "in" goes, and a later installation
# of PCP runs PCP's.
#
# Where the file cannot be replaced, because /usr is read-only, and in trials, a drop-in of
# pmcd.service mounts this pmcd in its place: in the unit's name space of mounts, so
# that PCP's script, with its options and upgrades of agents, starts it.
#
# What is neither PCP's pmcd nor this one is left alone, and what a package has diverted,
# as pmcd-swap does.
set -eu

quiet=
say() { [ -n "$quiet" ] || printf 'swap-pmcd: %s\n' "$*"; }
die() {
	printf 'swap-pmcd: %s\n' "$*" >&2
	[ "$verb" != status ] || exit 3 # 1 is PCP's pmcd
	exit 1
}
usage() { sed -n 's/^# usage: /usage: /p' "$0" >&2; exit 2; }
self=$(readlink -f "$0")

new=$(dirname "$self")/../bin/pmcd
root=
while getopts qb:r: opt; do
	case $opt in
	q) quiet=yes ;;
	b) new=$OPTARG ;;
	r) root=${OPTARG%/} ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || usage
verb=$1
shift
trial='' compare='' agents='' exclude=''
while [ $# -gt 0 ]; do
	[ $# -ge 2 ] || usage
	case $verb$1 in
	in--trial) trial=$2 ;;
	check--compare) compare=$2 ;;
	check--agent) agents="$agents $2" ;;
	in--exclude | check--exclude | watch--exclude) exclude="$exclude -x $2" ;;
	*) usage ;;
	esac
	shift 2
done
for time in "$trial" "$compare"; do
	case $time in
	'' | [1-9]s | [1-9][0-9]s | [1-9][0-9][0-9]s | [1-9]m | [1-9][0-9]m | [1-9][0-9][0-9]m | [1-9]h | [1-9][0-9]h) ;;
	*) die "$time is no time such as 90s, 10m or 2h" ;;
	esac
done

# The drop-in that mounts this pmcd in the place of PCP's where /usr is read-only.
unit=pmcd.service
lasting=/etc/systemd/system/$unit.d/pmcd-swap-mount.conf

# unmount removes it, and fails if there is none.
unmount() {
	[ -z "$root" ] && [ -e "$lasting" ] || return 1
	rm -f "$lasting"
	! [ -d /run/systemd/system ] || systemctl daemon-reload
}

# found prints the directory of programs where "in" has left something on a host
# whose pcp.conf is gone: a diversion, or files.
found() {
	{
		! command -v dpkg-divert >/dev/null ||
			LC_ALL=C dpkg-divert ${root:+"--root=$root"} --list |
			sed -n 's|^local diversion of \(/.*\)/pmcd to \1/pmcd\.pcp$|\1|p'
		for d in /usr/lib/pcp/bin /usr/libexec/pcp/bin; do
			[ ! -e "$root$d/pmcd" ] && [ ! -e "$root$d/pmcd.pcp" ] || echo "$d"
		done
	} | head -n 1
}

conf=$root${PCP_CONF:-/etc/pcp.conf}
gone=
if [ -f "$conf" ]; then
	dir=$(sed -n 's/^PCP_BINADM_DIR=//p' "$conf" | tail -n 1)
elif [ "$verb" = out ]; then
	gone=yes
	unmount || :
	dir=$(found)
	[ -n "$dir" ] || { say "no PCP here, and nothing to put back"; exit 0; }
else
	die "no PCP here: $conf is missing"
fi
case $dir in
/*) ;;
*) die "$conf: no directory in PCP_BINADM_DIR" ;;
esac
target=$dir/pmcd   # without ROOT: names as dpkg has them
kept=$dir/pmcd.pcp # PCP's while ours is in its place

# kind says what a file is: ours (every Go program has a line with the path of its
# main package), PCP's (it needs libpcp), none, or something else.
kind() {
	if [ ! -e "$1" ] && [ ! -L "$1" ]; then
		echo none
	elif [ -L "$1" ] || [ ! -f "$1" ]; then
		echo else
	elif grep -qa 'path[[:blank:]]github\.com/gopcp/pmcd/cmd/pmcd$' "$1"; then
		echo ours
	elif grep -qaF libpcp.so. "$1"; then
		echo theirs
	else
		echo else
	fi
}

# divert has dpkg-divert keep the files where they are: it would leave a time without a pmcd.
divert() { dpkg-divert ${root:+"--root=$root"} --quiet --local --no-rename --divert "$kept" "$@" "$target"; }

# replace moves the file $1 to $2. Even after a power failure, $2 is the old file or the new one.
replace() {
	sync "$1" "${1%/*}"
	mv -f "$1" "$2"
	sync "${2%/*}"
}

# packaged: is the file, or its diversion, known to dpkg?
packaged() {
	command -v dpkg-divert >/dev/null && dpkg-query ${root:+"--admindir=$root/var/lib/dpkg"} -S "$target" >/dev/null 2>&1
}

diverted() { [ "$(dpkg-divert ${root:+"--root=$root"} --truename "$target")" != "$target" ]; }

# owned_by prints the package that has diverted the file, as pmcd-swap does.
owned_by() {
	! command -v dpkg-divert >/dev/null || dpkg-divert ${root:+"--root=$root"} --listpackage "$target" | grep -vx LOCAL || :
}

# relabel gives the file the label that its place has (SELinux).
relabel() { ! command -v restorecon >/dev/null || restorecon "$root$target"; }

# The drop-in of a trial, what watches it, and its files.
dropin=/run/systemd/system/$unit.d/pmcd-swap-trial.conf
watcher=pmcd-swap-trial.service
state=/run/pmcd-swap

# need_mounts refuses where a drop-in has no effect.
need_mounts() {
	[ -z "$root" ] || die "$1: not with -r"
	[ "$(id -u)" = 0 ] || die "$1: this needs root"
	[ -d /run/systemd/system ] || die "$1: this needs systemd, which does not run here"
	systemctl cat $unit >/dev/null 2>&1 || die "$1: there is no $unit"
	unshare -m true 2>/dev/null || die "$1: this needs a name space of mounts, and unshare -m fails here: in a container?"
	[ "$(kind "$new")" = ours ] || die "$new is not a pmcd of github.com/gopcp/pmcd: name the right file with -b"
	new=$(readlink -f "$new")
	case $new in *[!A-Za-z0-9_./+~-]*) die "$1: systemd cannot mount a file of the name $new" ;; esac
}

# mounted prints the drop-in that mounts the file $1.
mounted() { printf '# Made by swap-pmcd. Without the file, PCP'"'"'s pmcd is started.\n[Service]\nBindReadOnlyPaths=-%s:%s\n' "$1" "$target"; }

# type_of prints the type (SELinux) of a file.
type_of() { stat -c %C "$1" | cut -d : -f 3; }

# unlike: has $new another type than the file in whose place it is mounted? A mount keeps the label.
unlike() {
	command -v selinuxenabled >/dev/null && selinuxenabled && [ "$(type_of "$new")" != "$(type_of "$target")" ]
}

# running prints the process of pmcd.service, and what it runs.
main_pid() { systemctl show --value -p MainPID $unit; }
running() {
	if ! pid=$(main_pid 2>/dev/null) || [ "${pid:-0}" = 0 ] || [ ! -e "/proc/$pid/exe" ]; then
		echo none
	elif grep -qa 'path[[:blank:]]github\.com/gopcp/pmcd/cmd/pmcd$' "/proc/$pid/exe"; then
		echo ours
	else
		echo theirs
	fi
}

# bound prints the units that systemd stops and restarts with pmcd.service, and those that it
# stops with them.
bound() {
	all='' more=$unit
	while [ -n "$more" ]; do
		# shellcheck disable=SC2086 # lists
		more=$(systemctl show --value -p BoundBy -p ConsistsOf -p RequiredBy $more | tr ' ' '\n' | sed '/^$/d' | sort -u |
			grep -vxF "$(printf '%s\n' $unit $all)") || :
		all="$all $more"
	done
	# shellcheck disable=SC2086 # a list
	printf '%s\n' $all | sed '/^$/d'
}

# on_trial: does a trial run, or end just now?
on_trial() {
	[ -z "$root" ] && [ -d /run/systemd/system ] || return 1
	case $(systemctl is-active $watcher 2>/dev/null) in
	active | activating | deactivating) ;;
	*) return 1 ;;
	esac
}

mount_in() {
	need_mounts "$dir is read-only"
	if unlike; then
		chcon --reference="$target" "$new" || die "$new has not the type of $target: semanage fcontext -a -t $(type_of "$target") $new && restorecon $new"
	fi
	mkdir -p "${lasting%/*}"
	mounted "$new" >"$lasting.new"
	replace "$lasting.new" "$lasting"
	systemctl daemon-reload
	say "$dir is read-only: $unit mounts this pmcd in the place of $target: restart it. PCP's script, started without systemd, still runs PCP's pmcd"
}

swap_in() {
	[ "$(kind "$new")" = ours ] || die "$new is not a pmcd of github.com/gopcp/pmcd: name the right file with -b"
	was=$(kind "$root$target")
	other=$(kind "$root$kept")
	if [ "$was" = else ]; then
		die "$root$target is neither PCP's pmcd nor this one: nothing was changed; reinstall the package of PCP"
	elif [ "$other" = ours ] || [ "$other" = else ]; then
		die "$root$kept is not PCP's pmcd"
	elif [ "$was" = none ] && [ "$other" = none ]; then
		die "$root$target is missing"
	elif [ "$was" = ours ] && cmp -s "$new" "$root$target"; then
		relabel
		say "$root$target is this pmcd already"
		return
	fi
	if [ ! -w "$root$dir" ]; then
		mount_in
		return
	fi
	# After each step there is a pmcd at $target. All that can fail comes before it is replaced.
	trap 'rm -f "$root$target.new"' EXIT
	trap 'exit 1' HUP INT TERM
	cp "$new" "$root$target.new"
	chmod 755 "$root$target.new"
	divert=
	if packaged; then
		if ! diverted; then
			[ "$was" = theirs ] || die "$target is this pmcd, and dpkg has no diversion for it: reinstall the package of PCP"
			divert=yes
		elif [ "$other" = theirs ]; then
			was=none # an "in" or "out" was killed: what is kept is the newer, as dpkg upgrades only that
		fi
	fi
	# The one that an upgrade has brought is newer than what was kept.
	[ "$was" != theirs ] || ln -f "$root$target" "$root$kept"
	if [ -n "$divert" ]; then
		divert --add || { rm -f "$root$kept"; die "$target cannot be diverted"; }
	fi
	replace "$root$target.new" "$root$target"
	relabel
	say "$root$target is now this pmcd, PCP's is $root$kept: restart pmcd"
}

swap_out() {
	if unmount; then
		say "$unit starts PCP's pmcd: restart it"
		[ "$(kind "$target")" = ours ] || return 0
	fi
	was=$(kind "$root$target")
	other=$(kind "$root$kept")
	if [ "$was" = else ]; then
		die "$root$target is neither PCP's pmcd nor this one: nothing was changed; reinstall the package of PCP"
	elif [ "$other" = ours ] || [ "$other" = else ]; then
		die "$root$kept is not PCP's pmcd"
	fi
	rm -f "$root$target.new" # of an "in" that was killed
	if packaged && diverted; then
		# shellcheck disable=SC3013 # all shells of Linux have it
		if [ "$root$kept" -ef "$root$target" ]; then # an "in" that was killed
			rm -f "$root$kept"
		elif [ "$other" = theirs ]; then # the newer, if both are PCP's
			replace "$root$kept" "$root$target"
		elif [ "$was" != theirs ]; then # PCP's was removed meanwhile
			rm -f "$root$target"
		fi
		divert --remove || die "the diversion of $target cannot be removed: do \"swap-pmcd out\" again"
	elif [ -n "$gone" ]; then # what a removal of PCP has left
		rm -f "$root$kept"
		[ "$was" != theirs ] || return 0
		rm -f "$root$target"
	elif [ "$was" = theirs ]; then
		rm -f "$root$kept" # an upgrade has been here
		relabel
		say "$root$target is PCP's pmcd already"
		return
	elif [ "$other" = theirs ]; then
		replace "$root$kept" "$root$target"
	else
		die "there is no copy of PCP's pmcd: reinstall the package of PCP"
	fi
	if [ ! -e "$root$target" ]; then
		# The directories could not be removed because of this pmcd.
		rmdir -p "$root$dir" 2>/dev/null || :
		say "PCP has been removed, and $root$target too"
		return
	fi
	relabel
	say "$root$target is now PCP's pmcd: restart pmcd"
}

# ctl is the program that takes snapshots and compares them.
ctl() {
	for c in "${self%/*}/../bin/pmcdctl" pmcdctl; do
		! command -v "$c" >/dev/null || { "$c" "$@"; return; }
	done
	die "pmcdctl is missing"
}

# loggers prints the processes of pmlogger that have a connection to process $1. Others do not
# depend on it. The socket of one end is the peer of the other: an inode number, or an address.
# Any user can give a process that name, so only those of root and of PCP's user count.
loggers() {
	user=$(var PCP_USER)
	pcp=$(id -u "${user:-pcp}" 2>/dev/null || echo 0)
	command -v ss >/dev/null || { say "no pmlogger is watched, because ss is missing (iproute2)" >&2; return 0; }
	ss -Hnxtp | awk -v pmcd="pid=$1," '
		/^u_/ {own = $6; other = $8}
		/^tcp/ {own = $5; other = $6}
		index($0, pmcd) {connected[other]}
		match($0, /"pmlogger",pid=[0-9]+/) {process[own] = substr($0, RSTART + 15, RLENGTH - 15)}
		END {for (own in process) if (own in connected) print process[own]}' | sort -u |
		while read -r p; do
			case $(awk '/^Uid:/ {print $2}' "/proc/$p/status" 2>/dev/null) in 0 | "$pcp") echo "$p" ;; esac
		done
}

# start_trial has the watcher, which systemd supervises, do all that follows. When it ends, for
# whatever reason, systemd runs the script "back".
start_trial() {
	need_mounts "in --trial"
	on_trial && die "a trial runs: end it with \"swap-pmcd keep\" (this pmcd stays) or \"swap-pmcd out\" (PCP's)"
	if [ "$(kind "$target")" != theirs ] || [ -e "$lasting" ]; then die "this pmcd is in the place of PCP's already"; fi
	[ "$(running)" = theirs ] || die "PCP's pmcd does not run, so there is nothing to compare with: systemctl start $unit"
	as_unit -v >/dev/null 2>&1 || die "this pmcd would not start: \"swap-pmcd check\" says why"
	# Processes come and go, and to look at all of them again and again costs more than the rest.
	# Those of pmlogger and pmie may belong to another pmcd.
	exclude="$exclude -x proc -x hotproc -x pmcd.pmlogger -x pmcd.pmie"
	rm -rf $state
	mkdir -m 700 $state
	# shellcheck disable=SC2086 # a list
	ctl snapshot -s $before --pid "$(main_pid)" $exclude >$state/before.json || die "in --trial: no snapshot of PCP's pmcd"
	loggers "$(main_pid)" >$state/loggers
	[ -s $state/loggers ] || ! command -v ss >/dev/null || say "no pmlogger is watched, because none of root or PCP's user has a connection to pmcd"
	for u in $(bound); do ! systemctl --quiet is-active "$u" || printf '%s\n' "$u"; done >$state/bound
	source=$new exec=
	if unlike; then
		source=$state/pmcd
		cp "$new" $source && chcon --reference="$target" $source
		exec="ExecPaths=$target" # on Debian nothing in /run can be executed, and a mount keeps that
	fi
	{
		mounted "$source"
		[ -z "$exec" ] || echo "$exec"
		echo "# When this pmcd ends, for whatever reason, the next one is PCP's."
		echo "ExecStopPost=-+/bin/sh -c 'rm -f $dropin; systemctl daemon-reload'"
	} >$state/dropin
	cat >$state/back <<-END
		#!/bin/sh
		[ ! -e $state/kept ] && [ ! -e $state/over ] || exit 0
		if [ -s $state/why ]; then why=\$(cat $state/why)
		elif [ "\$SERVICE_RESULT" = timeout ]; then why="its time is over"
		else why="its watcher has ended (\$SERVICE_RESULT)"; fi
		text="swap-pmcd: the trial is over, and PCP's pmcd comes back: \$why"
		printf '%s\n' "\$text" | tee -a $state/report # echo of some shells takes backslashes for escapes
		# While this pmcd runs, a unit that is down was stopped in the trial, and stays so. If pmcd
		# has ended, systemd has stopped units with it.
		ours=
		if [ -e $state/begun ] && [ -e $dropin ] && systemctl --quiet is-active $unit; then ours=yes; fi
		up=\$(while read -r u; do
			case \$ours\$(systemctl is-active "\$u") in yesinactive) ;; *) printf '%s\n' "\$u" ;; esac
		done <$state/bound)
		[ ! -e $dropin ] || : >$state/restart
		rm -f $dropin
		if [ -e $state/restart ]; then do=restart; else do=start; fi
		systemctl daemon-reload
		systemctl reset-failed $unit # or the limit of starts may keep it down
		systemctl \$do $unit
		[ -z "\$up" ] || systemctl --no-block start \$up
		! [ -x $dir/pmpost ] || $dir/pmpost "\$(printf '%s\n' "\$text" | head -n 1)"
		: >$state/over
	END
	# shellcheck disable=SC2046 # a list
	systemd-run --quiet --collect --unit=$watcher --description="Trial of pmcd" -p RuntimeMaxSec="$trial" -p Restart=on-abort \
		-p ExecStopPost="/bin/sh $state/back" /bin/sh "$self" -b "$new" watch $(echo "$exclude" | sed 's/ -x / --exclude /g')
	while on_trial && [ ! -e $state/begun ]; do sleep 0.2; done
	[ -e $state/begun ] || die "the trial has ended: $(cat $state/why 2>/dev/null || echo "journalctl -u $watcher says why")"
	say "$unit runs this pmcd for $trial: swap-pmcd keep, or PCP's comes back. journalctl -u $watcher follows it, and $state/report is the report"
}

# end ends the trial: systemd runs "back".
end() {
	printf '%s\n' "$*" >$state/why
	exit 1
}

# logged prints the size of the archive that a pmlogger writes.
logged() { find -L "/proc/$1/fd" -maxdepth 1 -type f -name '*' -printf '%s\n' 2>/dev/null | awk '{n += $1} END {print n + 0}'; }

# uptime prints the seconds since the boot: date would jump when the clock is set.
uptime() { cut -d . -f 1 /proc/uptime; }

# Seconds of a trial: how long the snapshot before it takes, how often it looks, how long agents have
# to become ready, how often it compares, and how long a pmlogger has to connect again (80 s at most)
# and to log once more.
before=10 look=5 ready=60 every=30 log=150

# watch_trial is the watcher. All that it does can be interrupted at any time.
watch_trial() {
	[ "$(systemctl show --value -p MainPID $watcher 2>/dev/null)" = $$ ] || usage
	# "systemctl kill" of systemd 257 kills "back", too: a watcher that was killed is restarted for it.
	if [ -e $state/over ] || ! mkdir $state/watched 2>/dev/null; then end "its watcher has ended (signal)"; fi
	systemctl stop $unit
	mkdir -p "${dropin%/*}"
	cp $state/dropin $dropin
	systemctl daemon-reload
	systemctl start $unit || end "$unit has not started: journalctl -u $unit"
	xargs -r -d '\n' systemctl --no-block start <$state/bound || : # they were stopped with it
	[ "$(running)" = ours ] || end "$unit has started PCP's pmcd: name spaces of mounts may be forbidden"
	was=$(main_pid)
	: >$state/begun
	: >$state/differed
	logs=$(uptime)
	next=$((logs + ready))
	loggers=
	while read -r p; do # a unit that was stopped with pmcd may be one of these
		[ ! -e "/proc/$p" ] && [ -s $state/bound ] || loggers="$loggers $p"
	done <$state/loggers
	for p in $loggers; do logged "$p" >"$state/logged.$p"; done
	while :; do
		sleep $look
		now=$(uptime)
		if [ ! -e $dropin ] || [ "$(main_pid)" != "$was" ]; then end "this pmcd has ended, or was restarted: journalctl -u $unit"; fi
		for p in $loggers; do
			[ -e "/proc/$p" ] || end "pmlogger, process $p, has ended"
		done
		if [ $((now - logs)) -ge $log ]; then
			for p in $loggers; do
				size=$(logged "$p")
				[ "$size" != "$(cat "$state/logged.$p")" ] || end "pmlogger, process $p, has logged nothing for $((now - logs)) s"
				echo "$size" >"$state/logged.$p"
			done
			logs=$now
		fi
		[ "$now" -ge $next ] || continue
		next=$((now + every))
		restarts=$(ctl status --json | sed -n 's/^ *"restarts": \([0-9]*\),*$/\1/p' | awk '{n += $1} END {print n + 0}')
		[ "$restarts" -lt 2 ] || end "agents of this pmcd were restarted $restarts times: the last log of this pmcd says why"
		code=0
		# shellcheck disable=SC2086 # a list
		ctl compare -f $state/before.json -s 3 --pid "$was" $exclude >$state/compared 2>&1 || code=$?
		cat $state/compared >$state/report
		# Twice the same: what began just now may need a moment, and a busy agent may miss a sample.
		if [ $code = 0 ]; then
			: >$state/compared
		elif [ ! -s $state/compared ]; then
			end "pmcdctl compare has ended with status $code"
		fi
		sed '/^METRIC /d; /^$/,$d; s/  .*//' $state/compared | sort -u >$state/differ
		if grep -qxFf $state/differed $state/differ; then
			end "twice in a row there are differences from PCP's pmcd:
$(sed '/^$/,$d' $state/compared | head -n 20)"
		fi
		mv $state/differ $state/differed
	done
}

keep() {
	if ! on_trial || [ ! -e $state/begun ]; then die "no trial runs"; fi
	cmp -s "$new" "/proc/$(main_pid)/exe" || die "the trial runs another pmcd than $new: name it with -b"
	swap_in
	: >$state/kept
	rm -f $dropin
	systemctl daemon-reload
	systemctl stop $watcher || :
	say "the trial is over, and this pmcd goes on"
}

# var prints a variable of pcp.conf.
var() { sed -n "s/^$1=//p" "$conf" | tail -n 1; }

# as_unit runs this pmcd with the options and the environment that PCP's script gives it.
as_unit() (
	options=$(var PCP_PMCDOPTIONS_PATH)
	sysconfig=$(var PCP_SYSCONFIG_DIR)/pmcd
	set -a
	# shellcheck disable=SC1090 # of the host
	[ ! -r "$sysconfig" ] || . "$sysconfig"
	# shellcheck disable=SC2046 # options
	exec "$new" "$@" $(grep -v '^ *#' "$options" 2>/dev/null | tr '\n' ' ')
)

problems=
problem() {
	problems=yes
	printf 'swap-pmcd: problem: %s\n' "$*" >&2
}

# check says what "in" would meet.
check() {
	[ -z "$root" ] || die "check: not with -r"
	[ "$(kind "$new")" = ours ] || die "$new is not a pmcd of github.com/gopcp/pmcd: name the right file with -b"
	case $(kind "$target") in
	ours) say "$target is this pmcd already" ;;
	theirs) ;;
	*) problem "$target is neither PCP's pmcd nor this one" ;;
	esac
	missing=$(ldd "$new" 2>/dev/null | sed -n 's/^[[:blank:]]*\(.*\) => not found$/\1/p')
	[ -z "$missing" ] || problem "libraries are missing: $(printf '%s\n' "$missing" | paste -sd " ")"
	said=$(as_unit -v 2>&1) || problem "this pmcd does not start with this configuration"
	[ -z "$said" ] || printf '%s\n' "$said" >&2
	pid=$(main_pid 2>/dev/null) || { # without systemd
		pid=$(cat "$(var PCP_RUN_DIR)/pmcd.pid" 2>/dev/null) && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = pmcd ] || pid=0
	}
	if [ "${pid:-0}" != 0 ]; then
		say "agents that are processes now, with their users. Under this pmcd they have the same users, unless a warning says otherwise:"
		# pmdaroot starts agents, too.
		[ -n "$quiet" ] || ps -o user=,args= --ppid "$pid$(pgrep -P "$pid" | sed 's/^/,/' | tr -d '\n')" | sed 's/^/    /'
	fi
	if [ -d /run/systemd/system ] && units=$(bound) && [ -n "$units" ]; then
		say "systemd stops and restarts with $unit, also at both ends of a trial: $(printf '%s\n' "$units" | paste -sd " ")"
	fi
	if [ ! -w "$dir" ]; then
		say "$dir is read-only: \"in\" mounts this pmcd in its place"
		if [ ! -d /run/systemd/system ] || ! unshare -m true 2>/dev/null; then problem "that needs systemd, and name spaces of mounts"; fi
	else
		space=$(df -Pk "$dir" | awk 'NR == 2 {print $4}')
		[ "$space" -gt $(($(stat -Lc %s "$new") / 512)) ] || problem "$dir has $space KiB of space left, which is not enough"
	fi
	# A policy without PCP's types, such as Debian's, cannot load the module and does not need it.
	if command -v getenforce >/dev/null && [ "$(getenforce)" = Enforcing ] && [ "$(type_of "$target")" = pcp_pmcd_exec_t ]; then
		semodule -l | grep -q '^pmcd-go' || problem "SELinux is enforcing, and the module pmcd-go is not loaded: build it from pmcd-go.te of package pmcd-swap"
	fi
	[ -z "$compare" ] || rehearse || problem "the comparison has failed, or has found differences: see above"
	[ -z "$problems" ] || exit 1
	case $said in *Warning:*) but=" but for the warnings" ;; *) but= ;; esac
	say "no problem was found$but: \"swap-pmcd in\" can be run"
}

# rehearse runs this pmcd beside the one that runs, and compares the two. It has directories of
# its own for what it writes, and another name: PCP's script ends processes by their names.
# Its agents are built in, because a second process of an agent writes the files of the first one.
rehearse() {
	need_mounts "check --compare"
	on_trial && die "a trial runs: end it with \"swap-pmcd keep\" (this pmcd stays) or \"swap-pmcd out\" (PCP's)"
	pid=$(main_pid)
	[ "${pid:-0}" != 0 ] || die "check --compare: $unit does not run"
	name=pmcd-rehearsal
	own=/run/$name
	! systemctl --quiet is-active $name.service || die "check --compare: $name.service runs already"
	rm -rf $own
	mkdir $own
	chmod 755 $own
	trap 'systemctl stop pmcd-rehearsal.service 2>/dev/null || :; rm -rf /run/pmcd-rehearsal' EXIT
	trap 'exit 1' HUP INT TERM
	ln -s "$new" $own/$name
	vars=$(var PCP_VAR_DIR) run=$(var PCP_RUN_DIR) tmp=$(var PCP_TMP_DIR) logs=$(var PCP_LOG_DIR)
	cp -a "$vars/config/pmda" $own/pmda || die "check --compare: cannot copy $vars/config/pmda to $own"
	# Lines of agents come before the section [access].
	awk -v also=" $agents " '
		/^[[:blank:]]*\[access\]/ {access = 1}
		access || /^[[:blank:]]*#/ || NF < 4 {print; next}
		$1 ~ /^(pmcd|proc|xfs|linux|kvm|jbd2|cifs|nfsclient|pmimport|mmv|pmproxy)$/ {print $1, $2, "dso", $1 "_init", "builtin"; next}
		$1 ~ /^(root|trace|logger|perfevent|bpf|bcc|openmetrics)$/ {next}
		index(also, " " $1 " ")
	' "$(var PCP_PMCDCONF_PATH)" >$own/pmcd.conf || die "check --compare: cannot write $own/pmcd.conf"
	set -- -p "BindPaths=$own/pmda:$vars/config/pmda" -p "TemporaryFileSystem=$run $tmp $logs"
	for d in mmv pmproxy pmlogger pmie; do set -- "$@" -p "BindReadOnlyPaths=-$tmp/$d"; done
	for d in pmlogger pmie pmproxy; do set -- "$@" -p "BindReadOnlyPaths=-$run/$d.pid"; done
	seconds=$(($(echo "$compare" | sed 's/s$//; s/m$/*60/; s/h$/*3600/')))
	systemd-run --quiet --collect --unit=$name.service --description="Rehearsal of pmcd" -p RuntimeMaxSec=$((seconds + 600)) "$@" \
		$own/$name -F -c $own/pmcd.conf -l - -i 127.0.0.1 -p 44399 -s $own/pmcd.socket
	until ctl get -h unix:$own/pmcd.socket pmcd.pid >/dev/null 2>&1; do
		systemctl --quiet is-active $name.service || die "check --compare: the rehearsal has ended: journalctl -u $name"
		sleep 0.2
	done
	# Agents may need a moment. One that has failed then is a difference.
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		! ctl get -h unix:$own/pmcd.socket pmcd.agent.status | awk '$NF != 0 {exit 1}' || break
		sleep 1
	done
	every=10
	[ "$seconds" -ge 50 ] || every=1
	# shellcheck disable=SC2086 # a list
	ctl compare --same-agents -t ${every}s -s $((seconds / every + 1)) -h "unix:$run/pmcd.socket" -h unix:$own/pmcd.socket $exclude
}

owner=$(owned_by)
if [ -n "$owner" ] && [ "$verb" != status ] && [ "$verb" != check ]; then
	die "package $owner has diverted $target: install or remove that package instead"
fi

case $verb in
in)
	if [ -n "$trial" ]; then
		start_trial
	else
		! on_trial || die "a trial runs: end it with \"swap-pmcd keep\" (this pmcd stays) or \"swap-pmcd out\" (PCP's)"
		swap_in
	fi
	;;
out)
	if on_trial; then
		echo "swap-pmcd out" >$state/why
		systemctl stop $watcher
		say "the trial is over, and $unit runs PCP's pmcd"
	else
		swap_out
	fi
	;;
keep) keep ;;
check) check ;;
watch) watch_trial ;; # of start_trial
update)
	# "out" leaves neither a copy of PCP's nor a diversion.
	if [ -z "$root" ] && [ -e "$lasting" ]; then
		say "$unit mounts this pmcd in the place of $target"
	elif [ "$(kind "$root$kept")" = theirs ] || { packaged && diverted; }; then
		swap_in
	else
		say "$root$target is PCP's pmcd: \"swap-pmcd in\" puts this one in its place"
	fi
	;;
status)
	code=0
	case $(kind "$root$target") in
	ours) say "$root$target is this pmcd" ;;
	theirs) say "$root$target is PCP's pmcd"; code=1 ;;
	*) say "$root$target is neither PCP's pmcd nor this one"; code=3 ;;
	esac
	if [ -z "$root" ] && [ -d /run/systemd/system ]; then
		if [ -e "$lasting" ]; then
			say "$unit mounts this pmcd in its place"
			code=0
		fi
		! on_trial || say "a trial runs: $unit runs this pmcd until it ends"
		case $(running) in
		ours) say "$unit runs this pmcd" ;;
		theirs) say "$unit runs PCP's pmcd" ;;
		esac
	fi
	exit $code
	;;
*) usage ;;
esac
