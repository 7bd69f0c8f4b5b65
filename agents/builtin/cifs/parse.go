package cifs

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

// The kinds of things that have metrics, which are the clusters.
const (
	totals  = iota // in Stats, and the version in DebugData
	share          // in Stats, each share
	debug          // in DebugData
	server         // in DebugData, each server, and so on
	session        // of a server
	mounted        // a share of a session
	numKinds
)

// A kind describes a cluster of metrics.
type kind struct {
	prefix    string // of names, after cifs.
	instances bool
	serial    int // of the instance domain
	units     pdu.Units
	fields    []field // by item
}

// A field is a number or a text.
type field struct {
	name string
	typ  pdu.MetricType
}

// fields parses a list of names. A name is followed by :text or :u32 if it is not of a number
// of 64 bits.
func fields(names string) (list []field) {
	for _, word := range strings.Fields(names) {
		name, typ, _ := strings.Cut(word, ":")
		f := field{name, pdu.MetricU64}
		switch typ {
		case "text":
			f.typ = pdu.MetricString
		case "u32":
			f.typ = pdu.MetricU32
		}
		list = append(list, f)
	}
	return list
}

var kinds = [numKinds]kind{
	totals: {units: pdu.Count, fields: fields(`session shares buffer pool_size small_buffer small_pool_size mid_operations total_operations
		total_reconnects vfs_operations vfs_operations_max version:text`)},
	share: {instances: true, serial: 0, units: pdu.Count, fields: fields(`fs.connected fs.smbs fs.oplock_breaks fs.read fs.read_bytes fs.write
		fs.write_bytes fs.flushes fs.locks fs.hard_links fs.sym_links ops.open ops.close ops.delete ops.posix_open ops.posix_mkdir
		ops.mkdir ops.rmdir ops.rename ops.t2_rename ops.find_first ops.find_next ops.find_close fs.read_fails fs.write_fails
		fs.flushes_fails fs.locks_fails ops.close_fails fs.negotiates fs.negotiates_fails fs.sessionsetups fs.sessionsetups_fails
		fs.logoffs fs.logoffs_fails fs.treecons fs.treecons_fails fs.treediscons fs.treediscons_fails fs.creates fs.creates_fails
		fs.IOCTLs fs.IOCTLs_fails fs.cancels fs.cancels_fails fs.echos fs.echos_fails fs.querydirs fs.querydirs_fails
		fs.changenotifies fs.changenotifies_fails fs.queryinfos fs.queryinfos_fails fs.setinfos fs.setinfos_fails fs.oplock_breaks_fails`)},
	debug: {prefix: "debug.", fields: fields(`max_buffer_size active_vfs_requests`)},
	server: {prefix: "debug.servers.", instances: true, serial: 1, fields: fields(`connection_id:text hostname:text client_guid:text
		number_of_credits server_capabilities:text tcp_status:u32 instance:u32 local_users_to_server:u32 security_mode:text
		requests_on_wire:u32 net_namespace:text send max_request_wait`)},
	session: {prefix: "debug.sessions.", instances: true, serial: 2, fields: fields(`addr:text uses:u32 capability:text status:u32
		security_type:text id:text user:u32 cred_user:u32`)},
	mounted: {prefix: "debug.shares.", instances: true, serial: 3, fields: fields(`mounts devinfo:text attributes:text status:u32
		type:text serial_number:text tid:text maximal_access:text`)},
}

// formats are the lines of both files, cifs_debug.c in the kernel, without the numbers and
// names of instances at their start. A word that begins with = is the value of a field, and *
// is any word. A line may have more words, and several formats.
//
// C differs: it looks at the version, and reads counters of SMB 1 as those of SMB 2, and
// Type as DevInfo.
var formats = parseFormats(map[int]string{
	totals: `
		CIFS Version =version
		CIFS Session: =session
		Share (unique mount targets): =shares
		SMB Request/Response Buffer: =buffer Pool size: =pool_size
		SMB Small Req/Resp Buffer: =small_buffer Pool size: =small_pool_size
		Operations (MIDs): =mid_operations
		=total_operations session =total_reconnects share reconnects
		Total vfs operations: =vfs_operations maximum at one time: =vfs_operations_max`,
	share: `
		SMBs: =fs.smbs
		SMBs: * Oplocks breaks: =fs.oplock_breaks
		SMBs: * since * * UTC Oplocks breaks: =fs.oplock_breaks
		Reads: =fs.read Bytes: =fs.read_bytes
		Writes: =fs.write Bytes: =fs.write_bytes
		Locks: =fs.locks HardLinks: =fs.hard_links Symlinks: =fs.sym_links
		Opens: =ops.open Closes: =ops.close Deletes: =ops.delete
		Posix Opens: =ops.posix_open Posix Mkdirs: =ops.posix_mkdir
		Mkdirs: =ops.mkdir Rmdirs: =ops.rmdir
		Renames: =ops.rename T2 Renames =ops.t2_rename
		FindFirst: =ops.find_first FNext =ops.find_next FClose =ops.find_close
		Bytes read: =fs.read_bytes Bytes written: =fs.write_bytes
		Flushes: =fs.flushes` + requests(`Reads: fs.read Writes: fs.write Locks: fs.locks Flushes: fs.flushes Closes: ops.close
		Negotiates: fs.negotiates SessionSetups: fs.sessionsetups Logoffs: fs.logoffs TreeConnects: fs.treecons
		TreeDisconnects: fs.treediscons Creates: fs.creates IOCTLs: fs.IOCTLs Cancels: fs.cancels Echos: fs.echos
		QueryDirectories: fs.querydirs ChangeNotifies: fs.changenotifies QueryInfos: fs.queryinfos SetInfos: fs.setinfos
		OplockBreaks: fs.oplock_breaks`),
	debug: `
		CIFSMaxBufSize: =max_buffer_size
		Active VFS Requests: =active_vfs_requests`,
	server: `
		ConnectionId: =connection_id Hostname: =hostname
		ClientGUID: =client_guid
		Number of credits: =number_of_credits
		Server capabilities: =server_capabilities
		TCP status: =tcp_status Instance: =instance
		Local Users To Server: =local_users_to_server SecMode: =security_mode Req On Wire: =requests_on_wire
		Local Users To Server: * SecMode: * Req On Wire: * Net namespace: =net_namespace
		In Send: =send In MaxReq Wait: =max_request_wait`,
	session: `
		Address: =addr
		Address: * Uses: =uses Capability: =capability Session Status: =status
		Security type: =security_type SessionId: =id
		User: =user Cred User: =cred_user`,
	mounted: `
		Mounts: =mounts
		Mounts: * DevInfo: =devinfo Attributes: =attributes
		Mounts: * Type: * DevInfo: =devinfo Attributes: =attributes
		PathComponentMax: * Status: =status type: =type
		PathComponentMax: * Status: * type: * Serial Number: =serial_number
		tid: =tid
		tid: * Maximal Access: =maximal_access
		tid: * Optimal sector size: * Maximal Access: =maximal_access`,
})

// requests returns the formats of requests of SMB 2 and 3, from a list of labels and fields.
func requests(list string) (text string) {
	words := strings.Fields(list)
	for i := 0; i < len(words); i += 2 {
		text = fmt.Sprintf("%s\n%s =%s * =%s_fails failed", text, words[i], words[i+1], words[i+1])
	}
	return text
}

// A format is a line.
type format struct {
	kind  int
	words []formatWord
}

type formatWord struct {
	literal string // "" for any word
	item    int    // of the field whose value the word is, or -1
}

// parseFormats returns formats by their first words; "" is for those that begin with a value.
func parseFormats(texts map[int]string) map[string][]format {
	m := make(map[string][]format)
	for k, text := range texts {
		for line := range strings.Lines(strings.TrimSpace(text)) {
			f := format{kind: k}
			for _, word := range strings.Fields(line) {
				w := formatWord{strings.TrimPrefix(word, "*"), -1}
				if name, ok := strings.CutPrefix(word, "="); ok {
					w = formatWord{"", slices.IndexFunc(kinds[k].fields, func(f field) bool { return f.name == name })}
				}
				f.words = append(f.words, w)
			}
			first := f.words[0].literal
			m[first] = append(m[first], f)
		}
	}
	return m
}

// A record has the values of a kind or of an instance, by item, as words; "" if there is none.
type record []string

func newRecord(k int) record { return make(record, len(kinds[k].fields)) }

// set sets r to the values of a line if it has this format.
func (r record) set(f *format, words [][]byte) {
	if len(words) < len(f.words) {
		return
	}
	for i, w := range f.words {
		if w.literal != "" && w.literal != string(words[i]) {
			return
		}
	}
	for i, w := range f.words {
		if w.item >= 0 {
			r[w.item] = string(words[i])
		}
	}
}

// number returns the number at the start of a word, such as 1460,1,1.
func number(word string) (n uint64, ok bool) {
	end := 0
	for end < len(word) && (word[end] >= '0' && word[end] <= '9' || end == 0 && word[0] == '-') {
		end++
	}
	return sysfile.Int([]byte(word[:end]))
}

// A parser parses the lines of both files.
type parser struct {
	checkpoint func() error
	instances  [numKinds]*cache.Cache // with a record each
	current    [numKinds]record       // of the lines that follow; nil if these are of no instance
	found      [numKinds]int          // number of instances
	debug      bool                   // the lines are of DebugData
}

const (
	// maxInstances is the largest number of instances of a kind, and of those that are gone
	// and keep their ids and records. The memory for one is at most two kilobytes.
	maxInstances = 10_000

	maxWords = 20 // of a line
)

var errTooMany = errors.New("more than 10,000 shares, servers or sessions: their metrics have no values until fewer shares are mounted")

// begin prepares p for the first line. checkpoint is called for each instance.
func (p *parser) begin(checkpoint func() error) {
	p.checkpoint, p.debug = checkpoint, false
	p.current = [numKinds]record{totals: newRecord(totals), debug: newRecord(debug)}
	p.found = [numKinds]int{}
	for _, c := range p.instances {
		if c == nil {
			continue
		}
		c.LimitInactive(maxInstances) // shares come and go
		c.HideAll()
	}
}

// line parses a line. Lines that it does not know are of other kernels.
func (p *parser) line(line []byte) error {
	if bytes.HasPrefix(line, []byte("\t\t")) { // an interface or another channel of the server
		return nil
	}
	var all [maxWords][]byte
	words := all[:0]
	for rest := line; len(words) < maxWords; {
		var word []byte
		if word, rest = sysfile.Field(rest); len(word) == 0 {
			break
		}
		words = append(words, word)
	}
	switch {
	case len(words) < 2:
	case isOrdinal(words[0]):
		return p.header(words, line[0] == '\t')
	default:
		p.values(words)
	}
	return nil
}

// values parses a line with values. A line that begins with a number has no first word.
func (p *parser) values(words [][]byte) {
	list := formats[string(words[0])]
	if list == nil {
		list = formats[""]
	}
	for i := range list {
		f := &list[i]
		if r := p.current[f.kind]; r != nil {
			r.set(f, words)
		}
	}
}

// header parses the first line of an instance, which begins with its number. A name ends at the
// first blank, as in pmdacifs. Of instances with the same name, the first counts.
func (p *parser) header(words [][]byte, indented bool) error {
	k, name := -1, ""
	ordinal, words := words[0], words[1:]
	isShare := bytes.HasPrefix(words[0], []byte(`\\`))
	mounts := slices.IndexFunc(words, func(word []byte) bool { return string(word) == "Mounts:" })
	switch first := string(words[0]); {
	case isShare && !p.debug:
		k, name = share, first
	case !p.debug:
	case isShare && mounts > 0:
		k, name, words = mounted, first, words[mounts:]
	case first == "IPC:" && mounts > 1:
		k, name, words = mounted, string(words[1]), words[mounts:]
	case first == "ConnectionId:" && len(words) > 3 && !indented:
		k, name = server, string(words[3])
	case first == "Address:" && len(words) > 1:
		k, name = session, string(words[1])+"::"+string(bytes.TrimRight(ordinal, ")"))
	}
	// What follows is not of an instance before, nor of one that is part of it.
	for i := max(k, share); i < numKinds; i++ {
		if i != debug {
			p.current[i] = nil
		}
	}
	if k < 0 {
		return nil
	}
	if err := p.checkpoint(); err != nil {
		return err
	}
	c := p.instances[k]
	if e, err := c.LookupName(name); err == nil && e.State == cache.Active {
		return nil
	}
	if p.found[k]++; p.found[k] > maxInstances {
		return errTooMany
	}
	r := newRecord(k)
	if _, err := c.Add(name, r); err != nil {
		return nil // the name is not valid, or all ids are used
	}
	p.current[k] = r
	if k == share {
		r[0] = "1"
		if string(words[len(words)-1]) == "DISCONNECTED" {
			r[0] = "0"
		}
		return nil
	}
	p.values(words)
	return nil
}

// isOrdinal reports whether a word is like 1).
func isOrdinal(word []byte) bool {
	digits, ok := bytes.CutSuffix(word, []byte(")"))
	_, isNumber := sysfile.Uint(digits)
	return ok && isNumber
}
