package proc

import (
	"bytes"
	"math/bits"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/cgroups"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
)

// maxFile is the largest number of bytes that are read of a file; the rest is
// ignored. /proc/PID/maps can have megabytes, and environ is as long as the process
// likes.
const maxFile = 1 << 20

// Files of a process, proc(5): indexes into formats and process.records.
const (
	formatStat = iota
	formatStatus
	formatStatm
	formatSchedstat
	formatIO
	formatSmaps
	formatOOM
	formatAutogroup
	formatCgroup
	formatLabel
	formatWchan
	formatEnviron
	formatMaps
	formatExe
	formatCwd
	formatFD
	formatGPU
	formatDelays
	formatNUMA
	formatMemory
	numFormats
)

// together has a bit for each format that is read together with others.
var together = func() (bits uint32) {
	for i := range formats {
		if formats[i].together {
			bits |= 1 << i
		}
	}
	return bits
}()

var formats = [numFormats]format{
	formatStat:      {file: "stat", fields: statFields, together: true, parse: parseStat},
	formatStatus:    {file: "status", fields: statusFields, together: true, parse: parseStatus},
	formatStatm:     {file: "statm", fields: 7, together: true, parse: parseWords},
	formatSchedstat: {file: "schedstat", fields: 3, together: true, parse: parseWords},
	formatIO: {file: "io", fields: 7, together: true, private: true, parse: keyed(
		"rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes", "cancelled_write_bytes")},
	formatSmaps:     {file: "smaps_rollup", fields: len(smapsNames), private: true, parse: keyed(smapsNames[:]...)},
	formatOOM:       {file: "oom_score", fields: 1, together: true, parse: parseWords},
	formatAutogroup: {file: "autogroup", fields: 2, mayBeEmpty: true, parse: parseAutogroup},
	formatCgroup:    {file: "cgroup", fields: 2, together: true, parse: parseCgroup},
	formatLabel:     {file: "attr/current", kind: sysfile.Label, fields: 1, single: true, parse: parseText},
	formatWchan:     {file: "wchan", fields: 1, single: true, optional: true, parse: parseText},
	formatEnviron:   {file: "environ", fields: 1, single: true, private: true, parse: parseEnviron},
	formatMaps:      {file: "maps", fields: 1, single: true, pieces: true, private: true, parse: parseText},
	formatExe:       {fields: 1, single: true, private: true, read: readLink("exe")},
	formatCwd:       {fields: 1, single: true, private: true, read: readLink("cwd")},
	formatFD:        {fields: 1, private: true, read: countFDs},
	formatGPU:       {fields: numGPUFields, private: true, read: readGPU},
	formatDelays:    {fields: numDelays, private: true, read: readDelays},
	formatNUMA:      {fields: numNUMAFields, private: true, read: readNUMA},
	formatMemory:    {fields: 2, together: true},
}

// smapsNames are the names of the lines of smaps_rollup that have a metric, in the order of its items.
var smapsNames = [...]string{
	"Rss", "Pss", "Pss_Anon", "Pss_File", "Pss_Shmem", "Shared_Clean", "Shared_Dirty",
	"Private_Clean", "Private_Dirty", "Referenced", "Anonymous", "LazyFree", "AnonHugePages", "ShmemPmdMapped",
	"FilePmdMapped", "Shared_Hugetlb", "Private_Hugetlb", "Swap", "SwapPss", "Locked", "Pss_Dirty",
}

// readMemory reads records of other formats, so the table cannot refer to it.
func init() { formats[formatMemory].read = readMemory }

// ownFields has a bit for each field that the agent uses for more than the metrics of the field:
// to tell processes, and the programs that they run, from others, and to count their states.
var ownFields = [numFormats]uint64{
	formatStat:   1<<statState | 1<<statStart | 1<<statVsize | 1<<statStack,
	formatStatus: 1 << statusTgid,
}

// Fields of stat, by their numbers in proc(5).
const (
	statComm  = 2
	statState = 3
	statPPID  = 4

	statTTY    = 7
	statTPGID  = 8
	statUtime  = 14
	statStime  = 15
	statStart  = 22
	statVsize  = 23
	statRSS    = 24
	statRSSLim = 25
	statStack  = 28
	statPolicy = 41
	statBlkio  = 42

	statFields = 53
)

// parseStat parses
//
//	3362 (a name) S 1 3362 3362 0 -1 4194560 ...
//
// The name may have any characters. The fields after the state are numbers.
func parseStat(r record, b []byte) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return
	}
	r.setText(statComm, b[open+1:end])
	state, rest := sysfile.Field(b[end+1:])
	r.setText(statState, state[:min(len(state), 1)])
	rest, _ = sysfile.CutLine(rest)
	end = bits.Len64(^r.unused & (1<<statFields - 1)) // of the fields that are needed
	for i := statPPID; i < end; i++ {
		var word []byte
		if word, rest = sysfile.Field(rest); len(word) == 0 {
			break
		}
		if !r.uses(i) {
			continue
		}
		if n, ok := sysfile.Int(word); ok {
			r.set(i, n)
		}
	}
}

// parseText parses a file that is one text, without NULs and newlines at its end.
func parseText(r record, b []byte) { r.setText(0, bytes.TrimRight(b, "\x00\n")) }

// parseEnviron replaces the NUL after each variable by a blank.
func parseEnviron(r record, b []byte) {
	r.setText(0, bytes.TrimSuffix(b, []byte{0}))
	text := r.string(0)
	for i, c := range text {
		if c == 0 {
			text[i] = ' '
		}
	}
}

// parseAutogroup parses
//
//	/autogroup-450 nice 0
func parseAutogroup(r record, b []byte) {
	line, _ := sysfile.CutLine(b)
	word, rest := sysfile.Field(line)
	if n, ok := sysfile.Uint(bytes.TrimPrefix(word, []byte("/autogroup-"))); ok {
		r.set(0, n)
	}
	_, rest = sysfile.Field(rest)
	word, _ = sysfile.Field(rest)
	if n, ok := sysfile.Int(word); ok {
		r.set(1, n)
	}
}

// parseCgroup parses
//
//	9:name=systemd:/
//	4:memory:/user
//
// The first field is the text that ps(1) shows, name=systemd:/;memory:/user, the
// second the id of the container.
//
// C differs: it finds containers only in a line of cpuset, which control groups of
// version 2 do not have.
func parseCgroup(r record, b []byte) {
	id, start := "", len(r.text)
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		i := bytes.IndexByte(line, ':')
		if i < 0 {
			continue
		}
		line = line[i+1:]
		if _, path, _ := bytes.Cut(line, []byte{':'}); id == "" && len(path) > 64 { // an id has 64 bytes
			id = containerID(strings.TrimSuffix(string(path), " (deleted)")) // a zombie's group may be
		}
		if len(r.text) > start {
			r.text = append(r.text, ';')
		}
		r.text = append(r.text, line...)
	}
	r.set(0, uint64(start)<<32|uint64(len(r.text)-start))
	r.setText(1, []byte(id))
}

// containerID returns the id of the container that a process is in, from the path of its
// control group: of the group or the nearest one above it that is a container's. The
// agent root has the containers of LXC, which have names and no ids.
//
// C differs: it knows only containers of Docker and Podman, by the last element of the
// path, and accepts any 64 characters.
func containerID(path string) string {
	for path != "" {
		if id, engine := cgroups.ContainerAt(path); id != "" && engine != cgroups.LXC {
			return id
		}
		path = path[:max(0, strings.LastIndexByte(path, '/'))]
	}
	return ""
}

func readLink(name string) func(p *process, r record) error {
	return func(p *process, r record) error {
		b, err := p.tree.Path("/proc/").Num(p.id).Str("/").Str(name).Link()
		if err == nil {
			r.setText(0, b)
			r.state[r.row] = filled
		}
		return err
	}
}

// Fields of formatMemory, in KiB.
const (
	memorySize = iota
	memoryRSS
)

// readMemory takes the size of the memory from status if the fetch needs that file, so that it
// need not read statm: the kernel writes the same numbers in both. That of stat is another one
// since Linux 6.16. A kernel thread has no memory, and no lines in status.
func readMemory(p *process, r record) error {
	from, size, rss, unit := formatStatm, 0, 1, p.tree.pageSize/1024
	if p.wanted>>formatStatus&1 != 0 {
		from, size, rss, unit = formatStatus, statusVmSize, statusVmRSS, 1
	}
	file := p.record(from)
	if file.ok() {
		r.set(memorySize, file.num(size)*unit)
		r.set(memoryRSS, file.num(rss)*unit)
		r.state[r.row] = filled
	}
	return file.err()
}

func countFDs(p *process, r record) error {
	n, err := p.path("fd").CountFDs(p.tree.ended)
	if p.threads && sysfile.Process.Absent(err) {
		n, err = p.tree.Path("/proc/").Num(p.id).Str("/fd").CountFDs(p.tree.ended)
	}
	if err == nil {
		r.set(0, n)
		r.state[r.row] = filled
	}
	return err
}
