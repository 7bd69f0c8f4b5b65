package nfsclient

import (
	"bytes"
	"errors"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
)

// maxMounts is the largest number of mounts. The memory for a mount is some eight
// kilobytes.
const maxMounts = 10_000

var errTooManyMounts = errors.New("more than 10,000 mounts of NFS")

// A mount has the statistics of a mount (nfs_show_stats and rpc_clnt_show_stats in the
// kernel):
//
//	device HOST:/EXPORT mounted on /MOUNT/POINT with fstype nfs4 statvers=1.1
//		opts:	rw,vers=4.2,rsize=1048576,...
//		age:	92
//		caps:	caps=0x1fbffff,...
//		nfsv4:	bm0=0xfdffbfff,...
//		sec:	flavor=1,pseudoflavor=1
//		events:	0 5 0 ...
//		bytes:	0 1048576 0 ...
//		RPC iostats version: 1.1  p/v: 100003/4 (nfs)
//		xprt:	tcp 699 0 1 ...
//		per-op statistics
//		        NULL: 2 4 0 88 48 7 2 9 0
//
// Numbers that a kernel does not write are missing at the end of a list. The memory of a
// mount is used again for each read.
type mount struct {
	point string // with octal numbers for blanks, as the kernel writes it
	texts [numTexts][]byte
	lists [numLists][]uint64
	ops   [numOps][]uint64 // empty if the mount does not have the operation
}

// Indexes into mount.texts.
const (
	textExport = iota
	textOptions
	textCapabilities
	textNFSv4
	textSecurity
	textTransport // the first word of a line xprt
	numTexts
)

// Indexes into mount.lists.
const (
	listAge = iota
	listEvents
	listBytes
	listTransport
	numLists
)

// maxNumbers is the largest number of a list: of the events, and of a transport by RDMA.
const maxNumbers = 28

func (m *mount) reset(export, point []byte) {
	for i := range m.texts {
		m.texts[i] = m.texts[i][:0]
	}
	for i := range m.lists {
		m.lists[i] = m.lists[i][:0]
	}
	for i := range m.ops {
		m.ops[i] = m.ops[i][:0]
	}
	m.setText(textExport, export)
	if m.point != string(point) {
		m.point = string(point)
	}
}

func (m *mount) setText(i int, text []byte) { m.texts[i] = append(m.texts[i][:0], text...) }

func (m *mount) setList(i int, text []byte) { m.lists[i] = numbers(m.lists[i][:0], text, maxNumbers) }

// numbers appends the numbers at the start of a line to list, which has at most max then.
func numbers(list []uint64, line []byte, max int) []uint64 {
	for len(list) < max {
		var word []byte
		word, line = sysfile.Field(line)
		n, ok := sysfile.Int(word)
		if !ok {
			break
		}
		list = append(list, n)
	}
	return list
}

// A parser parses the lines of mountstats.
type parser struct {
	ended  func() error
	ops    map[string]int // index into mount.ops, by the kernel's name
	mounts []*mount       // their memory
	n      int            // number of mounts found
	m      *mount         // whose lines follow; nil for a mount that is not of NFS
}

func newParser() *parser {
	p := &parser{ops: make(map[string]int)}
	for i, name := range strings.Fields(opNames) {
		p.ops[strings.ToUpper(name)] = i
	}
	return p
}

// begin prepares p for the first line. ended is called for each mount.
func (p *parser) begin(ended func() error) { p.ended, p.n, p.m = ended, 0, nil }

// found returns the mounts. Of those with the same mount point, only the last can be seen.
func (p *parser) found() []*mount { return p.mounts[:p.n] }

// line parses a line. Lines that it does not know are of other kernels. A line that is too long,
// which is nil, is of a mount that is not of NFS: users choose the names of theirs.
func (p *parser) line(line []byte) error {
	if len(line) == 0 || line[0] != '\t' {
		return p.device(line)
	}
	m := p.m
	if m == nil {
		return nil
	}
	name, value, _ := bytes.Cut(line[1:], []byte(":\t"))
	switch string(name) {
	case "opts":
		m.setText(textOptions, value)
	case "age":
		m.setList(listAge, value)
	case "caps":
		m.setText(textCapabilities, value)
	case "nfsv4":
		m.setText(textNFSv4, value)
	case "sec":
		m.setText(textSecurity, value)
	case "events":
		m.setList(listEvents, value)
	case "bytes":
		m.setList(listBytes, value)
	case "xprt": // with nconnect=N there are N lines, of which the last counts
		word, rest := sysfile.Field(value)
		m.setText(textTransport, word)
		m.setList(listTransport, rest)
	default:
		name, value, _ = bytes.Cut(name, []byte(": "))
		if i, ok := p.ops[string(bytes.TrimLeft(name, " "))]; ok {
			m.ops[i] = numbers(m.ops[i][:0], value, numCounters)
			if len(m.ops[i]) < numCounters-1 { // only errors are new
				m.ops[i] = m.ops[i][:0]
			}
		}
	}
	return nil
}

// device parses the first line of a mount. Blanks in its names are octal numbers.
func (p *parser) device(line []byte) error {
	p.m = nil
	var w [9][]byte
	for i := range w {
		w[i], line = sysfile.Field(line)
	}
	is := func(i int, want string) bool { return string(w[i]) == want }
	if !is(0, "device") || !is(2, "mounted") || !is(3, "on") || !is(5, "with") || !is(6, "fstype") ||
		!is(7, "nfs") && !is(7, "nfs4") || !bytes.HasPrefix(w[8], []byte("statvers=")) {
		return nil
	}
	if err := p.ended(); err != nil {
		return err
	}
	if p.n == maxMounts {
		return errTooManyMounts
	}
	if p.n == len(p.mounts) {
		p.mounts = append(p.mounts, new(mount))
	}
	p.m = p.mounts[p.n]
	p.n++
	p.m.reset(w[1], w[4])
	return nil
}

// lookUp returns the value of an option of a mount. ok is false if the mount does not have
// it.
func lookUp(options []byte, name string) (value []byte, ok bool) {
	for len(options) > 0 {
		var option []byte
		option, options, _ = bytes.Cut(options, []byte(","))
		if key, value, _ := bytes.Cut(option, []byte("=")); string(key) == name {
			return value, true
		}
	}
	return nil, false
}

// columns returns the items of cluster 7 to which the numbers of a line xprt belong. It
// returns nil for a transport that is not known.
func columns(transport []byte) []int {
	switch string(transport) {
	case "tcp": // xs_tcp_print_stats
		return tcpColumns
	case "udp":
		return udpColumns
	case "local": // has no port
		return tcpColumns[1:]
	case "rdma": // xprt_rdma_print_stats
		return rdmaColumns
	}
	return nil
}

var (
	tcpColumns  = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 21, 22, 23}
	udpColumns  = []int{1, 2, 6, 7, 8, 9, 10, 21, 22, 23}
	rdmaColumns = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 24, 25, 26, 27, 28, 29, 30}
)
