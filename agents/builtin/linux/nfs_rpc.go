package linux

import (
	"context"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// An rpcFile reads /proc/net/rpc/nfs or nfsd, of the NFS client or server. Lines
// have numbers, and newer kernels have more of them. A number that the file does
// not have is 0; without the file there are no values.
//
//	rpc 1218785 128 1218900
//	proc3 22 4084 29407 98330 129 12 0 0 3 0 0 0 0 0 0 0 0 0 0 0 1 1 0
type rpcFile struct {
	file   *sysfile.File
	source *pmda.Source
	exists bool
	lines  map[string]rpcLine
}

// maxRPC is the number of numbers of a line that are kept. The longest line is
// proc4ops, whose first number is the count of the others.
const maxRPC = 1 + 71

type rpcLine []optionalUint

func newRPCFile(h *host, path string) *rpcFile {
	r := &rpcFile{file: h.file(path), lines: make(map[string]rpcLine)}
	r.source = &pmda.Source{Read: func(context.Context, *pmda.Request) error {
		b, err := r.file.Read()
		r.exists = b != nil
		r.parse(b)
		return err
	}}
	return r
}

func (r *rpcFile) parse(b []byte) {
	for _, l := range r.lines {
		for i := range l {
			l[i] = optionalUint{ok: true}
		}
	}
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		name, line := sysfile.Field(line)
		l := r.lines[string(name)]
		for i := range l {
			var word []byte
			if word, line = sysfile.Field(line); len(word) == 0 {
				break
			}
			l[i].n, l[i].ok = sysfile.Uint(word)
		}
	}
}

func (r *rpcFile) line(name string) rpcLine {
	if r.lines[name] == nil {
		r.lines[name] = make(rpcLine, maxRPC)
	}
	return r.lines[name]
}

// sum returns the sum of the numbers with these indices.
func (l rpcLine) sum(indices []int) (sum uint64, ok bool) {
	for _, p := range indices {
		if !l[p].ok {
			return 0, false
		}
		sum += l[p].n
	}
	return sum, true
}

// value returns a FetchFunc for the number with an index in a line.
func (r *rpcFile) value(name string, index int) pmda.FetchFunc {
	l := r.line(name)
	return pmda.FromUint(func() (uint64, bool) { return l[index].n, l[index].ok && r.exists })
}

// calls returns a FetchFunc for the sum of the operations of a line.
func (r *rpcFile) calls(name string, o operations) pmda.FetchFunc {
	l := r.line(name)
	return pmda.FromUint(func() (uint64, bool) {
		n, ok := l.sum(o.indices)
		return n, ok && r.exists
	})
}

// reqs returns a FetchFunc for each operation of a line.
func (r *rpcFile) reqs(name string, o operations) pmda.FetchFunc {
	l := r.line(name)
	return func(_ context.Context, v *pmda.Value) error {
		if f := l[o.indices[v.Index()]]; f.ok && r.exists {
			v.SetUint(f.n)
		}
		return nil
	}
}

// operations are instances with the indices of their numbers in a line.
type operations struct {
	pmda.List
	indices []int
}

// newOperations returns instances with ids from first on. A name in brackets has a number
// in the line, but is not an instance.
func newOperations(first int32, names string) (o operations) {
	for i, name := range strings.Fields(names) {
		if name[0] != '(' {
			o.List = append(o.List, pdu.Inst{ID: first + int32(len(o.List)), Name: name})
			o.indices = append(o.indices, 1+i)
		}
	}
	return o
}

// The calls of NFS 2 and 3, and the operations of NFS 4 in the order of the
// kernel's client (linux/nfs4.h, NFSPROC4_CLNT_NULL) and server (OP_ACCESS).
//
// C differs: it does not know layoutreturn, which clients have, and so has the
// operations after it under the names of their neighbours.
var (
	nfs2Ops = newOperations(0, "null getattr setattr root lookup readlink read wrcache write create remove rename link symlink mkdir rmdir readdir statfs")
	nfs3Ops = newOperations(0, "null getattr setattr lookup access readlink read write create mkdir symlink mknod remove rmdir rename link readdir readdir+ statfs fsinfo pathconf commit")

	nfs4ClientOps = newOperations(0, `null read write commit open open_conf open_noat open_dgrd close setattr fsinfo renew setclntid
		confirm lock lockt locku access getattr lookup lookup_root remove rename link symlink create pathconf statfs readlink
		readdir server_caps delegreturn getacl setacl fs_locations rel_lkowner secinfo fsid_present exchange_id create_ses
		destroy_ses sequence get_lease_t reclaim_comp layoutget getdevinfo layoutcommit (layoutreturn) secinfononam test_stateid
		free_stateid getdevlist bind_ses destroy_clntid seek allocate deallocate`)
	nfs4ServerOps = newOperations(1, `op0-unused op1-unused op2-future access close commit create delegpurge delegreturn getattr
		getfh link lock lockt locku lookup lookup_root nverify open openattr open_conf open_dgrd putfh putpubfh putrootfh read
		readdir readlink remove rename renew restorefh savefh secinfo setattr setcltid setcltidconf verify write rellockowner
		bc_ctl bind_conn exchange_id create_ses destroy_ses free_stateid getdirdeleg getdevinfo getdevlist layoutcommit
		layoutget layoutreturn secinfononam sequence set_ssv test_stateid want_deleg destroy_clid reclaim_comp allocate copy
		copy_notify deallocate io_advise layouterror layoutstats offload_cancel offload_status read_plus seek write_same`)
)

func rpcMetrics(h *host) []pmda.Metric {
	client, server := newRPCFile(h, "proc/net/rpc/nfs"), newRPCFile(h, "proc/net/rpc/nfsd")
	// Linux 5.4 removed the cache of read-ahead parameters. As in C, its numbers
	// are 0 even on hosts without a server.
	ra := server.line("ra")
	cache := func(indices ...int) pmda.FetchFunc {
		return pmda.FromUint(func() (uint64, bool) { return ra.sum(indices) })
	}
	ops2 := &pmda.InDom{Serial: indomNFS2, Insts: nfs2Ops}
	ops3 := &pmda.InDom{Serial: indomNFS3, Insts: nfs3Ops}
	return slices.Concat(table(pmda.Metric{Source: client.source}, []row{
		{7, 1, "nfs.client.calls", u32, counter, count, client.calls("proc2", nfs2Ops)},
		{7, 20, "rpc.client.rpccnt", u32, counter, count, client.value("rpc", 0)},
		{7, 21, "rpc.client.rpcretrans", u32, counter, count, client.value("rpc", 1)},
		{7, 22, "rpc.client.rpcauthrefresh", u32, counter, count, client.value("rpc", 2)},
		{7, 24, "rpc.client.netcnt", u32, counter, count, client.value("net", 0)},
		{7, 25, "rpc.client.netudpcnt", u32, counter, count, client.value("net", 1)},
		{7, 26, "rpc.client.nettcpcnt", u32, counter, count, client.value("net", 2)},
		{7, 27, "rpc.client.nettcpconn", u32, counter, count, client.value("net", 3)},
		{7, 60, "nfs3.client.calls", u32, counter, count, client.calls("proc3", nfs3Ops)},
		{7, 64, "nfs4.client.calls", u32, counter, count, client.calls("proc4", nfs4ClientOps)},
	}), table(pmda.Metric{Source: server.source}, []row{
		{7, 30, "rpc.server.rpccnt", u32, counter, count, server.value("rpc", 0)},
		{7, 31, "rpc.server.rpcerr", u32, counter, count, server.value("rpc", 1)},
		{7, 32, "rpc.server.rpcbadfmt", u32, counter, count, server.value("rpc", 2)},
		{7, 33, "rpc.server.rpcbadauth", u32, counter, count, server.value("rpc", 3)},
		{7, 34, "rpc.server.rpcbadclnt", u32, counter, count, server.value("rpc", 4)},
		{7, 35, "rpc.server.rchits", u32, counter, count, server.value("rc", 0)},
		{7, 36, "rpc.server.rcmisses", u32, counter, count, server.value("rc", 1)},
		{7, 37, "rpc.server.rcnocache", u32, counter, count, server.value("rc", 2)},
		{7, 38, "rpc.server.fh_cached", u32, counter, count, server.value("rc", 3)}, // of Linux 2.2
		{7, 39, "rpc.server.fh_valid", u32, counter, count, server.value("rc", 4)},
		{7, 40, "rpc.server.fh_fixup", u32, counter, count, server.value("rc", 5)},
		{7, 41, "rpc.server.fh_lookup", u32, counter, count, server.value("fh", 1)},
		{7, 42, "rpc.server.fh_stale", u32, counter, count, server.value("fh", 0)},
		{7, 43, "rpc.server.fh_concurrent", u32, counter, count, server.value("rc", 8)},
		{7, 44, "rpc.server.netcnt", u32, counter, count, server.value("net", 0)},
		{7, 45, "rpc.server.netudpcnt", u32, counter, count, server.value("net", 1)},
		{7, 46, "rpc.server.nettcpcnt", u32, counter, count, server.value("net", 2)},
		// C differs: it has the value of nettcpcnt.
		{7, 47, "rpc.server.nettcpconn", u32, counter, count, server.value("net", 3)},
		{7, 50, "nfs.server.calls", u32, counter, count, server.calls("proc2", nfs2Ops)},
		{7, 51, "rpc.server.fh_anon", u32, counter, count, server.value("fh", 2)},
		{7, 52, "rpc.server.fh_nocache_dir", u32, counter, count, server.value("fh", 3)},
		{7, 53, "rpc.server.fh_nocache_nondir", u32, counter, count, server.value("fh", 4)},
		{7, 54, "rpc.server.io_read", u32, counter, octet, server.value("io", 0)},
		{7, 55, "rpc.server.io_write", u32, counter, octet, server.value("io", 1)},
		{7, 56, "rpc.server.th_cnt", u32, instant, count, server.value("th", 0)},
		{7, 57, "rpc.server.th_fullcnt", u32, counter, count, server.value("th", 1)},
		{7, 62, "nfs3.server.calls", u32, counter, count, server.calls("proc3", nfs3Ops)},
		{7, 66, "nfs4.server.calls", u32, counter, count, server.calls("proc4ops", nfs4ServerOps)},
		{7, 68, "rpc.server.ra_size", u32, counter, count, cache(0)},
		{7, 69, "rpc.server.ra_hits", u32, counter, count, cache(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)},
		{7, 70, "rpc.server.ra_misses", u32, counter, count, cache(11)},
	}), table(pmda.Metric{InDom: ops2, Source: client.source}, []row{
		{7, 4, "nfs.client.reqs", u32, counter, count, client.reqs("proc2", nfs2Ops)},
	}), table(pmda.Metric{InDom: ops2, Source: server.source}, []row{
		{7, 12, "nfs.server.reqs", u32, counter, count, server.reqs("proc2", nfs2Ops)},
	}), table(pmda.Metric{InDom: ops3, Source: client.source}, []row{
		{7, 61, "nfs3.client.reqs", u32, counter, count, client.reqs("proc3", nfs3Ops)},
	}), table(pmda.Metric{InDom: ops3, Source: server.source}, []row{
		{7, 63, "nfs3.server.reqs", u32, counter, count, server.reqs("proc3", nfs3Ops)},
	}), table(pmda.Metric{InDom: &pmda.InDom{Serial: indomNFS4Client, Insts: nfs4ClientOps}, Source: client.source}, []row{
		{7, 65, "nfs4.client.reqs", u32, counter, count, client.reqs("proc4", nfs4ClientOps)},
	}), table(pmda.Metric{InDom: &pmda.InDom{Serial: indomNFS4Server, Insts: nfs4ServerOps}, Source: server.source}, []row{
		{7, 67, "nfs4.server.reqs", u32, counter, count, server.reqs("proc4ops", nfs4ServerOps)},
	}))
}
