#!/bin/sh
# picture-prometheus.sh - a picture of Prometheus with metrics of pmcd, as PNG.
#
# usage: etc/picture-prometheus.sh FILE      after "make build"
#
# It needs curl, prometheus and chromium, of Debian; CHROMIUM names another browser
# with Chromium's options. For two minutes it runs bin/pmcd, bin/pmcd-prometheus and
# Prometheus on loopback, at PORT and the two ports after it, and makes some load.
# Then the browser makes a picture of Prometheus' own page.
set -eu
file=$(realpath "$1")
cd "$(dirname "$0")/.."
for p in curl prometheus "${CHROMIUM:=chromium}"; do
	command -v "$p" >/dev/null || { echo "picture-prometheus.sh: $p is missing" >&2; exit 1; }
done

exporter=127.0.0.1:$((${PORT:=44399} + 1)) prometheus=127.0.0.1:$((PORT + 2))
dir=$(mktemp -d)
pids=
trap 'for p in $pids; do kill $p 2>/dev/null || :; wait $p || :; done; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
# start URL COMMAND: starts a program in the background and waits until the URL answers.
start() {
	url=$1
	shift
	"$@" >"$dir/log" 2>&1 &
	pids="$! $pids"
	until curl -fs -o "$dir/reply" "$url"; do
		for p in $pids; do kill -0 "$p" 2>"$dir/reply" || { cat "$dir/out" "$dir/log" >&2; exit 1; }; done
		sleep 0.2
	done
}
export PCP_VAR_DIR="$dir" PMCD_ROOT_AGENT=0
bin/pmcd -f --embedded -p "$PORT" -s "$dir/pmcd.socket" -l "$dir/pmcd.log" >"$dir/out" 2>&1 &
pids=$!
start "http://$exporter/readyz" bin/pmcd-prometheus -h "unix:$dir/pmcd.socket" --listen "$exporter"
printf '%s\n' 'global: {scrape_interval: 2s, scrape_timeout: 2s}' 'scrape_configs:' \
	"- {job_name: pcp, static_configs: [{targets: ['$exporter'], labels: {instance: web1}}]}" >"$dir/prometheus.yml"
start "http://$prometheus/-/ready" prometheus --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/data" --web.listen-address="$prometheus"

for seconds in 20 10 20; do
	sleep 20
	timeout "$seconds" sh -c 'while :; do :; done' || :
	dd if=/dev/zero of="$dir/file" bs=1M count=$((seconds * 20)) conv=fsync 2>"$dir/out"
done

page="http://$prometheus/classic/graph?"
n=0
graph() { # query
	page="${page}g$n.range_input=2m&g$n.tab=0&g$n.expr=$(printf %s "$1" | od -An -v -tx1 | tr -d '\n' | tr ' ' %)&"
	n=$((n + 1))
}
graph 'sum by (instance, instname) (kernel_all_load)'
graph 'sum by (instance, instname) (rate(disk_dev_write_bytes[10s])) * 1024'
"$CHROMIUM" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$dir/chromium" \
	--window-size=1000,1540 --force-device-scale-factor=0.8 --virtual-time-budget=20000 --screenshot="$file" "$page" >"$dir/out" 2>&1 || { cat "$dir/out" >&2; exit 1; }
