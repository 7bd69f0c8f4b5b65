package linux

import (
	"bytes"
	"context"
	"slices"
	"strconv"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// nfsClients reads the clients of the NFSv4 server, which have a directory each in
// /proc/fs/nfsd/clients, and the files that they have open. Only root may read them.
// The file info has the client:
//
//	clientid: 0x6d077c5e60a12345
//	address: "192.0.2.36:0"
//	status: confirmed
//	name: "Linux NFSv4.2 host.example"
//	callback state: UP
//
// The file states has a line for each open file, delegation and lock:
//
//   - 0x62b3e55e00000001: { type: open, access: rw, deny: --, superblock: "fd:00:13091", filename: "/home/a" }
//
// Clients choose their names, and those of files. A name may be malformed, and make
// its line, or lines after it, malformed.
//
// C differs: it has only delegations, and only of devices with the major number 252,
// and keeps the ids of all files that were ever open.
type nfsClients struct {
	h       *host
	clients *instances[nfsClient]
	opens   *instances[nfsOpen]
	dirs    []nfsClientDir // of the last read
	name    []byte
}

type nfsClient struct {
	id, addr, status, host      string
	callbackState, callbackAddr string
	revoked, slots, targetSlots optionalUint
}

type nfsClientDir struct {
	num    uint64
	client *nfsClient
}

// An nfsOpen is an open file of a client. If a client has it open several times, or
// also has a delegation or a lock, the first line counts.
type nfsOpen struct {
	inode                  uint64
	typ, access, file      string
	id, clientAddr, client string // of the client: id, address, name
}

const (
	nfsClientsDir = "/proc/fs/nfsd/clients/"
	maxNFSInfo    = 4 << 10 // bytes that are read of a file info
	maxNFSStates  = 1 << 20 // bytes that are read of a file states
	maxNFSOpens   = 10000   // open files that become instances
)

func newNFSClients(h *host) *nfsClients {
	return &nfsClients{h: h, clients: newUnsavedInstances[nfsClient](h, indomNFSClient), opens: newUnsavedInstances[nfsOpen](h, indomNFSOpen)}
}

func (n *nfsClients) readClients(context.Context, *pmda.Request) error {
	n.clients.begin()
	defer n.clients.end()
	n.dirs = n.dirs[:0]
	var nums []uint64
	_ = n.h.hostReader.Path(nfsClientsDir).List(func(name []byte, _ byte) {
		if num, ok := sysfile.Uint(name); ok {
			nums = append(nums, num)
		}
	})
	slices.Sort(nums)
	for _, num := range nums {
		if err := n.h.ended(); err != nil {
			return err
		}
		text, err := n.file(num, "/info").Text(maxNFSInfo)
		if err != nil {
			continue // the client has gone
		}
		var c nfsClient
		c.parse(text)
		if c.id == "" {
			continue
		}
		if d := n.clients.add([]byte(c.id)); d != nil {
			*d = c
			n.dirs = append(n.dirs, nfsClientDir{num, d})
		}
	}
	return nil
}

// file starts the path of a file of a client.
func (n *nfsClients) file(num uint64, name string) *sysfile.Reader {
	return n.h.hostReader.Path(nfsClientsDir).Str(strconv.FormatUint(num, 10)).Str(name)
}

func (c *nfsClient) parse(b []byte) {
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		key, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimSpace(value)
		text := string(bytes.Trim(value, `"`))
		switch string(key) {
		case "clientid":
			c.id = text
		case "address":
			c.addr = text
		case "status":
			c.status = text
		case "name":
			c.host = nfsHost(text)
		case "callback state":
			c.callbackState = text
		case "callback address":
			c.callbackAddr = text
		case "admin-revoked states":
			c.revoked.parse(value)
		case "session slots":
			c.slots.parse(value)
		case "session target slots":
			c.targetSlots.parse(value)
		}
	}
}

// nfsHost returns the host in the name of a client. Clients that run Linux have the
// name "Linux NFSv4.2 HOST", of others the whole name is returned.
//
// C differs: it returns the third word.
func nfsHost(name string) string {
	first, rest := sysfile.Field([]byte(name))
	_, rest = sysfile.Field(rest)
	host, _ := sysfile.Field(rest)
	if string(first) == "Linux" && len(host) > 0 {
		return string(host)
	}
	return name
}

func (n *nfsClients) readOpens(ctx context.Context, r *pmda.Request, clients *pmda.Source) error {
	if err := r.ReadSource(ctx, clients); err != nil {
		return err
	}
	n.opens.begin()
	defer n.opens.end()
	for _, d := range n.dirs {
		if err := n.h.ended(); err != nil {
			return err
		}
		text, err := n.file(d.num, "/states").Text(maxNFSStates)
		if err != nil {
			continue
		}
		if len(text) == maxNFSStates { // the last line may be incomplete
			text = text[:bytes.LastIndexByte(text, '\n')+1]
		}
		for len(text) > 0 && n.opens.present < maxNFSOpens {
			var line []byte
			line, text = sysfile.CutLine(text)
			if err := n.addOpen(d.client, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// addOpen adds the instance of a line of the file states.
func (n *nfsClients) addOpen(c *nfsClient, line []byte) error {
	// The file name comes after all fields that are read.
	head, file, _ := bytes.Cut(line, []byte(`filename: "`))
	dev := bytes.SplitN(nfsField(head, `superblock: "`, '"'), []byte{':'}, 3)
	if len(dev) < 3 {
		return n.h.ended()
	}
	inode, ok := sysfile.Uint(dev[2])
	if !ok || inode == 0 {
		return n.h.ended()
	}
	n.name = strconv.AppendUint(n.name[:0], inode, 10)
	n.name = append(append(n.name, ':'), c.id...)
	if d := n.opens.add(n.name); d != nil {
		file, _, _ = bytes.Cut(file, []byte{'"'})
		d.inode, d.id, d.clientAddr, d.client = inode, c.id, c.addr, c.host
		setText(&d.typ, nfsField(head, "type: ", ','))
		setText(&d.access, nfsField(head, "access: ", ','))
		setText(&d.file, file[bytes.LastIndexByte(file, '/')+1:])
	}
	return n.h.ended()
}

// nfsField returns the text between key and the byte end, or nothing.
func nfsField(line []byte, key string, end byte) []byte {
	_, rest, _ := bytes.Cut(line, []byte(key))
	text, _, ok := bytes.Cut(rest, []byte{end})
	if !ok {
		return nil
	}
	return text
}

// setText sets s to b. It allocates memory only if they differ.
func setText(s *string, b []byte) {
	if *s != string(b) {
		*s = string(b)
	}
}

func (n *nfsClients) metrics() []pmda.Metric {
	clients := &pmda.Source{Read: n.readClients}
	opens := &pmda.Source{Read: func(ctx context.Context, r *pmda.Request) error { return n.readOpens(ctx, r, clients) }}
	// A line that is missing gives no value.
	text := func(f func(c *nfsClient) string) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, c *nfsClient) {
			if s := f(c); s != "" {
				v.SetString(s)
			}
		})
	}
	number := func(f func(c *nfsClient) *optionalUint) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, c *nfsClient) { f(c).setValue(v) })
	}
	ofOpen := func(f func(o *nfsOpen) string) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, o *nfsOpen) {
			if s := f(o); s != "" {
				v.SetString(s)
			}
		})
	}
	inode := pmda.FromData(func(v *pmda.Value, o *nfsOpen) { v.SetUint(o.inode) })
	return slices.Concat(table(pmda.Metric{InDom: &pmda.InDom{Serial: indomNFSClient, Insts: n.clients, Source: clients}}, []row{
		{96, 0, "nfs4.server.clients.client_id", str, discrete, none, text(func(c *nfsClient) string { return c.id })},
		{96, 1, "nfs4.server.clients.addr", str, discrete, none, text(func(c *nfsClient) string { return c.addr })},
		{96, 2, "nfs4.server.clients.status", str, discrete, none, text(func(c *nfsClient) string { return c.status })},
		{96, 3, "nfs4.server.clients.hostname", str, discrete, none, text(func(c *nfsClient) string { return c.host })},
		{96, 4, "nfs4.server.clients.callback_state", str, discrete, none, text(func(c *nfsClient) string { return c.callbackState })},
		{96, 5, "nfs4.server.clients.callback_addr", str, discrete, none, text(func(c *nfsClient) string { return c.callbackAddr })},
		{96, 6, "nfs4.server.clients.admin_revoked_states", u64, instant, none, number(func(c *nfsClient) *optionalUint { return &c.revoked })},
		{96, 7, "nfs4.server.clients.session_slots", u64, instant, none, number(func(c *nfsClient) *optionalUint { return &c.slots })},
		{96, 8, "nfs4.server.clients.session_target_slots", u64, instant, none, number(func(c *nfsClient) *optionalUint { return &c.targetSlots })},
	}), table(pmda.Metric{InDom: &pmda.InDom{Serial: indomNFSOpen, Insts: n.opens, Source: opens}}, []row{
		{97, 0, "nfs4.server.open.inode", u64, instant, none, inode},
		{97, 1, "nfs4.server.open.type", str, instant, none, ofOpen(func(o *nfsOpen) string { return o.typ })},
		{97, 2, "nfs4.server.open.access", str, instant, none, ofOpen(func(o *nfsOpen) string { return o.access })},
		{97, 3, "nfs4.server.open.filename", str, instant, none, ofOpen(func(o *nfsOpen) string { return o.file })},
		{97, 4, "nfs4.server.open.client_id", str, instant, none, ofOpen(func(o *nfsOpen) string { return o.id })},
		{97, 5, "nfs4.server.open.client_addr", str, instant, none, ofOpen(func(o *nfsOpen) string { return o.clientAddr })},
		{97, 6, "nfs4.server.open.client_hostname", str, instant, none, ofOpen(func(o *nfsOpen) string { return o.client })},
	}))
}
