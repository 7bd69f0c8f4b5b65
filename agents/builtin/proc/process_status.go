package proc

import (
	"bytes"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
)

// Fields of /proc/PID/status, proc(5).
const (
	statusUID  = 0 // followed by euid, suid, fsuid
	statusGID  = 4 // followed by egid, sgid, fsgid
	statusSigs = 8 // SigPnd, SigBlk, SigIgn, SigCgt
)

const (
	statusTgid = 12 + iota
	statusNgid
	statusThreads
	statusEnvID
	statusVoluntary
	statusInvoluntary
	statusVmSize
	statusVmLck
	statusVmRSS
	statusVmData
	statusVmStk
	statusVmExe
	statusVmLib
	statusVmSwap
	statusVmPeak
	statusVmPin
	statusVmHWM
	statusVmPTE
	statusCpus
	statusNStgid
	statusNSpid
	statusNSpgid
	statusNSsid
	statusFields
)

// A statusLine says how to parse a line.
type statusLine struct {
	field int
	kind  byte // 0: a number; 'I': four ids; 'T': text; 'L': a list, which gets commas
}

var statusLines = map[string]statusLine{
	"Uid": {statusUID, 'I'}, "Gid": {statusGID, 'I'},
	"SigPnd": {statusSigs, 'T'}, "SigBlk": {statusSigs + 1, 'T'}, "SigIgn": {statusSigs + 2, 'T'}, "SigCgt": {statusSigs + 3, 'T'},
	"Tgid": {statusTgid, 0}, "Ngid": {statusNgid, 0}, "Threads": {statusThreads, 0}, "envID": {statusEnvID, 0},
	"voluntary_ctxt_switches": {statusVoluntary, 0}, "nonvoluntary_ctxt_switches": {statusInvoluntary, 0},
	"VmSize": {statusVmSize, 0}, "VmLck": {statusVmLck, 0}, "VmRSS": {statusVmRSS, 0}, "VmData": {statusVmData, 0},
	"VmStk": {statusVmStk, 0}, "VmExe": {statusVmExe, 0}, "VmLib": {statusVmLib, 0}, "VmSwap": {statusVmSwap, 0},
	"VmPeak": {statusVmPeak, 0}, "VmPin": {statusVmPin, 0}, "VmHWM": {statusVmHWM, 0}, "VmPTE": {statusVmPTE, 0},
	"Cpus_allowed_list": {statusCpus, 'T'},
	"NStgid":            {statusNStgid, 'L'}, "NSpid": {statusNSpid, 'L'}, "NSpgid": {statusNSpgid, 'L'}, "NSsid": {statusNSsid, 'L'},
}

// statusByHash has statusLines by statusHash of their names. Half of the lines of the file are not
// in it. A map took a twentieth of a fetch of eight metrics of 3,000 processes.
var statusByHash = func() (lines [256][]namedLine) {
	for name, l := range statusLines {
		h := statusHash([]byte(name))
		lines[h] = append(lines[h], namedLine{name, l})
	}
	return lines
}()

type namedLine struct {
	name string
	statusLine
}

func statusHash(name []byte) byte { return name[0]*7 + name[len(name)-1]*31 + byte(len(name))*5 }

// statusLineOf returns how to parse the line with a name.
func statusLineOf(name []byte) (statusLine, bool) {
	for _, l := range statusByHash[statusHash(name)] {
		if l.name == string(name) {
			return l.statusLine, true
		}
	}
	return statusLine{}, false
}

// parseStatus stops when it has all fields that are needed.
func parseStatus(r record, b []byte) {
	missing := ^r.unused & (1<<statusFields - 1)
	for len(b) > 0 && missing != 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		i := bytes.IndexByte(line, ':')
		if i <= 0 {
			continue
		}
		l, ok := statusLineOf(line[:i])
		n := 1
		if l.kind == 'I' {
			n = 4
		}
		fields := uint64(1<<n-1) << l.field
		if !ok || missing&fields == 0 {
			continue
		}
		missing &^= fields
		rest := line[i+1:]
		switch l.kind {
		case 'T':
			r.setText(l.field, bytes.TrimSpace(rest))
		case 'L':
			r.setText(l.field, bytes.TrimSpace(rest))
			list := r.string(l.field)
			for i, c := range list {
				if sysfile.IsBlank(c) {
					list[i] = ','
				}
			}
		default:
			for i := range n {
				var word []byte
				word, rest = sysfile.Field(rest)
				if n, ok := sysfile.Uint(word); ok {
					r.set(l.field+i, n)
				}
			}
		}
	}
}
