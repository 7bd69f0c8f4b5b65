#!/bin/sh
# picture.sh - the picture of the README: what "pmcdctl watch" shows, as SVG.
#
# usage: etc/picture.sh >docs/watch.svg      after "make build"
#
# It runs bin/pmcd with a socket in a directory of its own, at PORT, and removes both.
# script(1), of util-linux, is the terminal.
set -eu
cd "$(dirname "$0")/.."

metrics='kernel.all.load kernel.all.cpu.user kernel.all.cpu.sys
kernel.all.pressure.cpu.some.avg mem.util.available
disk.all.read_bytes disk.all.write_bytes filesys.full'
dir=$(mktemp -d)
export PMCD_SOCKET="$dir/pmcd.socket" PCP_VAR_DIR="$dir" PMCD_ROOT_AGENT=0
bin/pmcd -f --embedded -p "${PORT:-44399}" -s "$PMCD_SOCKET" -l "$dir/log" >"$dir/out" 2>&1 &
pmcd=$!
trap 'kill $pmcd; wait $pmcd || :; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
until bin/pmcdctl get pmcd.numclients >"$dir/out" 2>&1; do
	kill -0 $pmcd 2>"$dir/out" || { cat "$dir/log" >&2; exit 1; }
done

script -qec "stty cols 72 rows 30; bin/pmcdctl watch -s 3 $(echo "$metrics" | tr '\n' ' ')" "$dir/terminal" >"$dir/out"
# The last screen, without control sequences, below the command.
LC_ALL=C.UTF-8 awk -v metrics="$metrics" '
function put(s) {
	gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s)
	printf "<text x=\"16\" y=\"%d\">%s</text>\n", 28 + 20 * n++, s
}
/\033\[\?7l/ { rows = 0 }
{ gsub(/\033\[[?0-9;]*[A-Za-z]/, ""); gsub(/\r/, ""); if (!/^Script /) row[rows++] = $0 }
END {
	while (rows > 0 && row[rows - 1] == "") rows--
	lines = split("$ pmcdctl watch " metrics, command, "\n")
	height = 20 * (rows + lines) + 28
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"%d\" font-family=\"monospace\" font-size=\"15\" fill=\"#ddd\" xml:space=\"preserve\">\n", height
	printf "<title>pmcdctl watch</title>\n<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"#1b1f24\"/>\n"
	for (i = 1; i <= lines; i++) put((i > 1 ? "    " : "") command[i] (i < lines ? " \\" : ""))
	for (i = 0; i < rows; i++) put(row[i])
	print "</svg>"
}' "$dir/terminal"
