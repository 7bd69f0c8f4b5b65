package cifs

import (
	"fmt"
	"slices"
	"strings"

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
