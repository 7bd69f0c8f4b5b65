#!/bin/sh
# swap-pmcd - put this pmcd in the place of the installed PCP's, and back.
#
# usage: swap-pmcd [-q] [-b FILE] [-r ROOT] in|out|update|status
#
#   in      PCP's scripts and units start this pmcd
#   out     they start PCP's again
#   update  "in" again, after an upgrade of this one or of PCP; nothing after "out"
#   status  which one they start: exit status 0 is this one, 1 PCP's
#   -q      say nothing if nothing is wrong
#   -b FILE this pmcd [the one that was installed, or built, with this script]
#   -r ROOT work on the system that is installed below ROOT
#
# On Debian and its like the file is diverted (dpkg-divert(1)), so that upgrades
# of PCP go past this pmcd. Elsewhere PCP's is kept as a copy and an upgrade
# brings it back: do "in" again. A pmcd that runs goes on: restart it. "out" works
# after PCP was removed, too: what is left of "in" goes, and a later installation
# of PCP runs PCP's.
# What is neither PCP's pmcd nor this one is left alone, and what a package has diverted,
# as pmcd-swap does.
set -eu

quiet=
say() { [ -n "$quiet" ] || printf 'swap-pmcd: %s\n' "$*"; }
die() { printf 'swap-pmcd: %s\n' "$*" >&2; exit 1; }
usage() { sed -n 's/^# usage: /usage: /p' "$0" >&2; exit 2; }

new=$(dirname "$0")/../bin/pmcd
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
[ $# -eq 1 ] || usage

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
elif [ "$1" = out ]; then
	gone=yes
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

divert() { dpkg-divert ${root:+"--root=$root"} --quiet --local --rename --divert "$kept" "$@" "$target"; }

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

swap_in() {
	[ "$(kind "$new")" = ours ] || die "$new is not this pmcd"
	was=$(kind "$root$target")
	other=$(kind "$root$kept")
	if [ "$was" = else ]; then
		die "$root$target is neither PCP's pmcd nor this one"
	elif [ "$other" = ours ] || [ "$other" = else ]; then
		die "$root$kept is not PCP's pmcd"
	elif [ "$was" = none ] && [ "$other" = none ]; then
		die "$root$target is missing"
	elif [ "$was" = ours ] && cmp -s "$new" "$root$target"; then
		say "$root$target is this pmcd already"
		return
	fi
	# All that can fail comes first: there is always a pmcd to start.
	trap 'rm -f "$root$target.new" "$root$kept.new"' EXIT
	cp "$new" "$root$target.new"
	chmod 755 "$root$target.new"
	if packaged; then
		if ! diverted; then
			[ "$was" = theirs ] || die "dpkg knows $target, but not that it is this pmcd: reinstall the package of PCP"
			[ "$other" = none ] || die "$root$kept is in the way"
			divert --add
		elif [ "$was" = theirs ]; then
			die "$target is diverted, but PCP's pmcd is there: remove one of the two"
		fi
	elif [ "$was" = theirs ]; then # newer than what was kept, if an upgrade brought it
		cp -p "$root$target" "$root$kept.new"
		mv -f "$root$kept.new" "$root$kept"
	fi
	mv -f "$root$target.new" "$root$target"
	relabel
	say "$root$target is now this pmcd, PCP's is $root$kept: restart pmcd"
}

swap_out() {
	was=$(kind "$root$target")
	other=$(kind "$root$kept")
	if [ "$was" = else ]; then
		die "$root$target is neither PCP's pmcd nor this one"
	elif [ "$other" = ours ] || [ "$other" = else ]; then
		die "$root$kept is not PCP's pmcd"
	fi
	if packaged && diverted; then
		[ "$was" != theirs ] || die "$target is diverted, but PCP's pmcd is there: remove one of the two"
		rm -f "$root$target" # PCP's may have been removed meanwhile, and there is none
		divert --remove
	elif [ -n "$gone" ]; then # what a removal of PCP has left
		rm -f "$root$kept"
		[ "$was" != theirs ] || return 0
		rm -f "$root$target"
	elif [ "$was" = theirs ]; then
		rm -f "$root$kept" # an upgrade has been here
		say "$root$target is PCP's pmcd already"
		return
	elif [ "$other" = theirs ]; then
		mv -f "$root$kept" "$root$target"
	else
		die "PCP's pmcd is nowhere: reinstall the package of PCP"
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

owner=$(owned_by)
if [ -n "$owner" ] && [ "$1" != status ]; then
	die "package $owner has diverted $target: install or remove that package instead"
fi

case $1 in
in) swap_in ;;
out) swap_out ;;
update)
	# "out" leaves neither a copy of PCP's nor a diversion.
	if [ "$(kind "$root$kept")" = theirs ] || { packaged && diverted; }; then
		swap_in
	else
		say "$root$target is PCP's pmcd: \"swap-pmcd in\" puts this one in its place"
	fi
	;;
status)
	case $(kind "$root$target") in
	ours) say "$root$target is this pmcd" ;;
	theirs) say "$root$target is PCP's pmcd"; exit 1 ;;
	*) say "$root$target is neither PCP's pmcd nor this one"; exit 3 ;;
	esac
	;;
*) usage ;;
esac
