// Package systemtest tests what an admin does with pmcd as a service, on machines
// that have booted with systemd: install, start, configure, restart, remove;
// without PCP and with Debian's. "make systemtest" runs it.
package systemtest
