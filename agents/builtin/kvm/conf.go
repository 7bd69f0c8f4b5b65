package kvm

import (
	"bytes"
	"slices"
	"strings"
)

// A conf is the contents of the file kvm.conf:
//
//	# mount points
//	[paths]
//	debugfs=/sys/kernel/debug
//	# trace points
//	[trace]
//	kvm_exit
type conf struct {
	debugfs, tracefs, lockdown string
	tracePoints                []string
}

// defaultConf is used on a host without kvm.conf. It has the trace points of PCP's
// file.
const defaultConf = "[trace]\nkvm_exit\nkvm_entry\nkvm_mmio\nkvm_hypercall\nkvm_vcpu_wakeup\n"

// maxTracePoints is the largest number of trace points: the items of a cluster
// except that of kvm.trace.count.
const maxTracePoints = 1023

// parseConf parses the file. It rejects lines that are not the name of a trace
// point, duplicates, and names beyond maxTracePoints.
func parseConf(text string) (c conf, rejected []string) {
	paths := map[string]*string{"debugfs": &c.debugfs, "tracefs": &c.tracefs, "lockdown": &c.lockdown}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = line
		case section == "[paths]":
			name, value, _ := strings.Cut(line, "=")
			if path, words := paths[name], strings.Fields(value); path != nil && len(words) > 0 {
				*path = words[0]
			}
		case section != "[trace]" && section != "[dynamic]":
		case !isName(line) || slices.Contains(c.tracePoints, line) || len(c.tracePoints) == maxTracePoints:
			rejected = append(rejected, line)
		default:
			c.tracePoints = append(c.tracePoints, line)
		}
	}
	return c, rejected
}

// isName reports whether s can be the last part of a metric's name below kvm.trace,
// pmns(5). kvm.trace.count is the number of trace points.
func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != "" && s != "count"
}

func isLocked(b []byte) bool {
	return bytes.Contains(b, []byte("[integrity]")) || bytes.Contains(b, []byte("[confidentiality]"))
}
