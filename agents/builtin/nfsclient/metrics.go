package nfsclient

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// opNames are the operations in the order of their items: those of all versions of NFS, of
// NFS 3 only, and those that are new in 4.0, 4.1 and 4.2.
const opNames = `null getattr setattr lookup access readlink read write create symlink remove rename link readdir fsinfo pathconf commit
	fsstat mkdir mknod readdirplus rmdir
	close create_session delegreturn destroy_session exchange_id fs_locations getacl getdeviceinfo get_lease_time layoutcommit
	layoutget layoutreturn lock lockt locku lookup_root open open_confirm open_downgrade open_noattr reclaim_complete
	release_lockowner renew secinfo sequence server_caps setacl setclientid setclientid_confirm statfs
	bind_conn_to_session destroy_clientid free_stateid getdevicelist secinfo_no_name test_stateid
	seek allocate deallocate fsid_present layoutstats clone copy offload_cancel lookupp layouterror`

// eventNames are the metrics of cluster 5 in the order of their items.
const eventNames = `inoderevalidate dentryrevalidate datainvalidate attrinvalidate vfsopen vfslookup vfsaccess
	vfsupdatepage vfsreadpage vfsreadpages vfswritepage vfswritepages vfsgetdents vfssetattr vfsflush vfsfsync vfslock
	vfsrelease congestionwait setattrtrunc extendwrite sillyrename shortread shortwrite delay pnfsread pnfswrite`

const (
	numOps      = 68
	numCounters = 9 // of an operation
)

// from returns the FetchFunc that calls f with the mount.
func from(f func(v *pmda.Value, m *mount) error) pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error { return f(v, v.Data().(*mount)) }
}

// errNone is the error of a metric that no mount has.
const errNone = pdu.ErrnoAppVersion

// text returns the function of a metric with a text of a mount.
func text(i int) pmda.FetchFunc {
	return pmda.FromData(func(v *pmda.Value, m *mount) { v.SetBytes(m.texts[i]) })
}

// list returns the function of metrics whose items, from 1, are the positions in a list of a
// mount.
func list(i int) pmda.FetchFunc {
	return from(func(v *pmda.Value, m *mount) error { return setNumber(v, m.lists[i], v.Metric().Item-1) })
}

// setNumber sets v to number i of a list. There is no value if the kernel does not write
// the number.
//
// C differs: no mount has values if a number is missing.
func setNumber(v *pmda.Value, list []uint64, i int) error {
	if i < 0 || i >= len(list) {
		return errNone
	}
	v.SetInt(int64(list[i]))
	return nil
}

// counter is the function of the metrics of operations. There is no value for an operation
// that the mount does not have.
//
// C differs: the value is 0. 6.0.3 also has this value for all operations of RPC iostats 1.1,
// and later PCP for those of 1.0.
func counter(v *pmda.Value, m *mount) error {
	i := v.Metric().Item - 1
	return setNumber(v, m.ops[i/numCounters], i%numCounters)
}

// transport is the function of the metrics of cluster 7. What other transports have is 0.
//
// C differs: max_slots is 0, and so are all for a transport between processes of the host.
func transport(v *pmda.Value, m *mount) error {
	items := columns(m.texts[textTransport])
	i := slices.Index(items, v.Metric().Item)
	if items != nil && i < 0 {
		v.SetUint(0)
		return nil
	}
	return setNumber(v, m.lists[listTransport], i)
}

// port is the function of xprt.srcport, which is a text.
func port(v *pmda.Value, m *mount) error {
	if !slices.Contains(columns(m.texts[textTransport]), v.Metric().Item) || len(m.lists[listTransport]) == 0 {
		return errNone
	}
	v.SetString(strconv.FormatUint(m.lists[listTransport][0], 10))
	return nil
}

// option returns the function of a metric of options. A mount that is read has some.
func option(f func(v *pmda.Value, options []byte) error) pmda.FetchFunc {
	return from(func(v *pmda.Value, m *mount) error {
		if len(m.texts[textOptions]) == 0 {
			return errNone
		}
		return f(v, m.texts[textOptions])
	})
}

// all is the function of options.string.
func all(v *pmda.Value, options []byte) error {
	v.SetBytes(options)
	return nil
}

// given returns the function of a metric that is 1 if the mount has the option, else 0.
func given(name string) pmda.FetchFunc { return flag(name, 1, 0) }

// without returns the function of a metric that is 0 if the mount has the option, else 1.
//
// C differs: the value is always 0.
func without(name string) pmda.FetchFunc { return flag(name, 0, 1) }

func flag(name string, with, without uint64) pmda.FetchFunc {
	return option(func(v *pmda.Value, options []byte) error {
		v.SetUint(without)
		if _, ok := lookUp(options, name); ok {
			v.SetUint(with)
		}
		return nil
	})
}

// number returns the function of a metric that is the number of an option, or 0.
func number(name string) pmda.FetchFunc {
	return option(func(v *pmda.Value, options []byte) error {
		value, _ := lookUp(options, name)
		n, _ := sysfile.Uint(value)
		v.SetUint(n)
		return nil
	})
}

// word returns the function of a metric that is the value of an option.
func word(name string) pmda.FetchFunc {
	return option(func(v *pmda.Value, options []byte) error {
		value, ok := lookUp(options, name)
		if !ok {
			return errNone
		}
		v.SetBytes(value)
		return nil
	})
}

// oneOf returns the function of a metric that is one of some options.
//
// C differs: for softerr there is no value.
func oneOf(names ...string) pmda.FetchFunc {
	return option(func(v *pmda.Value, options []byte) error {
		for _, name := range names {
			if _, ok := lookUp(options, name); ok {
				v.SetString(name)
				return nil
			}
		}
		return errNone
	})
}

// protocol is the function of options.proto, which does not say whether addresses are of
// IPv6.
//
// C differs: there is no value if they are.
func protocol(v *pmda.Value, options []byte) error {
	value, ok := lookUp(options, "proto")
	if !ok {
		return errNone
	}
	v.SetBytes(bytes.TrimSuffix(value, []byte("6")))
	return nil
}

// A row is a metric of a table.
type row metrics.Row

func (h *host) metrics() []pmda.Metric {
	source := &pmda.Source{Read: h.read}
	common := pmda.Metric{InDom: &pmda.InDom{Insts: h.instances, Source: source}}
	const u32, u64, str, counts, instant = pdu.MetricU32, pdu.MetricU64, pdu.MetricString, pdu.SemCounter, pdu.SemInstant
	long := u64 // unsigned long in the kernel
	if strconv.IntSize == 32 {
		long = u32
	}
	events, amounts, xprt := list(listEvents), list(listBytes), from(transport)
	rows := []row{
		{0, 1, "nfsclient.export", str, instant, 0, text(textExport)},
		{0, 2, "nfsclient.mountpoint", str, instant, 0, pmda.FromData(func(v *pmda.Value, m *mount) { v.SetString(m.point) })},

		{1, 1, "nfsclient.options.string", str, instant, 0, option(all)},
		{1, 2, "nfsclient.options.readmode", str, instant, 0, oneOf("ro", "rw")},
		{1, 3, "nfsclient.options.sync", u32, instant, 0, given("sync")},
		{1, 4, "nfsclient.options.atime", u32, instant, 0, without("noatime")},
		{1, 5, "nfsclient.options.diratime", u32, instant, 0, without("nodiratime")},
		{1, 6, "nfsclient.options.vers", str, instant, 0, word("vers")},
		{1, 7, "nfsclient.options.rsize", u32, instant, 0, number("rsize")},
		{1, 8, "nfsclient.options.wsize", u32, instant, 0, number("wsize")},
		{1, 9, "nfsclient.options.bsize", u32, instant, 0, number("bsize")},
		{1, 10, "nfsclient.options.namlen", u32, instant, 0, number("namlen")},
		{1, 11, "nfsclient.options.acregmin", u32, instant, 0, number("acregmin")},
		{1, 12, "nfsclient.options.acregmax", u32, instant, 0, number("acregmax")},
		{1, 13, "nfsclient.options.acdirmin", u32, instant, 0, number("acdirmin")},
		{1, 14, "nfsclient.options.acdirmax", u32, instant, 0, number("acdirmax")},
		{1, 15, "nfsclient.options.recovery", str, instant, 0, oneOf("hard", "soft", "softerr")},
		{1, 16, "nfsclient.options.posix", u32, instant, 0, given("posix")},
		{1, 17, "nfsclient.options.cto", u32, instant, 0, without("nocto")},
		{1, 18, "nfsclient.options.ac", u32, instant, 0, without("noac")},
		{1, 19, "nfsclient.options.lock", u32, instant, 0, without("nolock")},
		{1, 20, "nfsclient.options.acl", u32, instant, 0, without("noacl")},
		{1, 21, "nfsclient.options.rdirplus", u32, instant, 0, without("nordirplus")},
		{1, 22, "nfsclient.options.sharecache", u32, instant, 0, without("nosharecache")},
		{1, 23, "nfsclient.options.resvport", u32, instant, 0, without("noresvport")},
		{1, 24, "nfsclient.options.proto", str, instant, 0, option(protocol)},
		{1, 25, "nfsclient.options.port", u32, instant, 0, number("port")},
		{1, 26, "nfsclient.options.timeo", u32, instant, 0, number("timeo")},
		{1, 27, "nfsclient.options.retrans", u32, instant, 0, number("retrans")},
		{1, 28, "nfsclient.options.sec", str, instant, 0, word("sec")},
		{1, 29, "nfsclient.options.mountaddr", str, instant, 0, word("mountaddr")},
		{1, 30, "nfsclient.options.mountvers", u32, instant, 0, number("mountvers")},
		{1, 31, "nfsclient.options.mountport", u32, instant, 0, number("mountport")},
		{1, 32, "nfsclient.options.mountproto", str, instant, 0, word("mountproto")},
		{1, 33, "nfsclient.options.clientaddr", str, instant, 0, word("clientaddr")},
		{1, 34, "nfsclient.options.fsc", u32, instant, 0, given("fsc")},
		{1, 35, "nfsclient.options.migration", u32, instant, 0, given("migration")},
		{1, 36, "nfsclient.options.lookupcache", str, instant, 0, word("lookupcache")},
		{1, 37, "nfsclient.options.local_lock", str, instant, 0, word("local_lock")},

		{2, 1, "nfsclient.age", long, instant, pdu.Sec, list(listAge)},

		{3, 1, "nfsclient.capabilities", str, instant, 0, text(textCapabilities)},
		{3, 2, "nfsclient.nfsv4", str, instant, 0, text(textNFSv4)},

		{4, 1, "nfsclient.security", str, instant, 0, text(textSecurity)},
	}
	for i, name := range strings.Fields(eventNames) {
		rows = append(rows, row{5, i + 1, "nfsclient.events." + name, u32, counts, pdu.Count, events})
	}
	ms := metrics.Table(common, append(rows, []row{
		{6, 1, "nfsclient.bytes.read.normal", u64, counts, pdu.Byte, amounts},
		{6, 2, "nfsclient.bytes.write.normal", u64, counts, pdu.Byte, amounts},
		{6, 3, "nfsclient.bytes.read.direct", u64, counts, pdu.Byte, amounts},
		{6, 4, "nfsclient.bytes.write.direct", u64, counts, pdu.Byte, amounts},
		{6, 5, "nfsclient.bytes.read.server", u64, counts, pdu.Byte, amounts},
		{6, 6, "nfsclient.bytes.write.server", u64, counts, pdu.Byte, amounts},
		{6, 7, "nfsclient.pages.read", u64, counts, pdu.Count, amounts},
		{6, 8, "nfsclient.pages.write", u64, counts, pdu.Count, amounts},

		{7, 1, "nfsclient.xprt.srcport", str, instant, 0, from(port)},
		{7, 2, "nfsclient.xprt.bind_count", u32, counts, pdu.Count, xprt},
		{7, 3, "nfsclient.xprt.connect_count", u32, counts, pdu.Count, xprt},
		{7, 4, "nfsclient.xprt.connect_time", u32, counts, pdu.Count, xprt},
		{7, 5, "nfsclient.xprt.idle_time", u32, instant, pdu.Sec, xprt},
		{7, 6, "nfsclient.xprt.sends", u32, counts, pdu.Count, xprt},
		{7, 7, "nfsclient.xprt.recvs", u32, counts, pdu.Count, xprt},
		{7, 8, "nfsclient.xprt.bad_xids", u32, counts, pdu.Count, xprt},
		{7, 9, "nfsclient.xprt.req_u", u64, counts, pdu.Count, xprt},
		{7, 10, "nfsclient.xprt.backlog_u", u64, counts, pdu.Count, xprt},
		{7, 11, "nfsclient.xprt.read_chunks", long, counts, pdu.Count, xprt},
		{7, 12, "nfsclient.xprt.write_chunks", long, counts, pdu.Count, xprt},
		{7, 13, "nfsclient.xprt.reply_chunks", long, counts, pdu.Count, xprt},
		{7, 14, "nfsclient.xprt.total_rdma_req", u64, counts, pdu.Count, xprt},
		{7, 15, "nfsclient.xprt.total_rdma_rep", u64, counts, pdu.Count, xprt},
		{7, 16, "nfsclient.xprt.pullup", u64, counts, pdu.Count, xprt},
		{7, 17, "nfsclient.xprt.fixup", u64, counts, pdu.Count, xprt},
		{7, 18, "nfsclient.xprt.hardway", long, counts, pdu.Count, xprt},
		{7, 19, "nfsclient.xprt.failed_marshal", long, counts, pdu.Count, xprt},
		{7, 20, "nfsclient.xprt.bad_reply", long, counts, pdu.Count, xprt},
		{7, 21, "nfsclient.xprt.max_slots", long, counts, pdu.Count, xprt},
		{7, 22, "nfsclient.xprt.sending_u", u64, counts, pdu.Count, xprt},
		{7, 23, "nfsclient.xprt.pending_u", u64, counts, pdu.Count, xprt},
		{7, 24, "nfsclient.xprt.nomsg_call", long, counts, pdu.Count, xprt},
		{7, 25, "nfsclient.xprt.mrs_recycled", long, counts, pdu.Count, xprt},
		{7, 26, "nfsclient.xprt.mrs_orphaned", long, counts, pdu.Count, xprt},
		{7, 27, "nfsclient.xprt.mrs_allocated", long, counts, pdu.Count, xprt},
		{7, 28, "nfsclient.xprt.local_inv_needed", long, counts, pdu.Count, xprt},
		{7, 29, "nfsclient.xprt.empty_sendctxq", long, counts, pdu.Count, xprt},
		{7, 30, "nfsclient.xprt.reply_waits", long, counts, pdu.Count, xprt},
	}...))
	ops := from(counter)
	for i, name := range strings.Fields(opNames) {
		item, name := i*numCounters, "nfsclient.ops."+name
		counters := []row{
			{8, item + 1, name + ".ops", long, counts, pdu.Count, ops},
			{8, item + 2, name + ".ntrans", long, counts, pdu.Count, ops},
			{8, item + 3, name + ".timeouts", long, counts, pdu.Count, ops},
			{8, item + 4, name + ".bytes_sent", u64, counts, pdu.Byte, ops},
			{8, item + 5, name + ".bytes_recv", u64, counts, pdu.Byte, ops},
			{8, item + 6, name + ".queue", u64, counts, pdu.Msec, ops},
			{8, item + 7, name + ".rtt", u64, counts, pdu.Msec, ops},
			{8, item + 8, name + ".execute", u64, counts, pdu.Msec, ops},
			{8, item + 9, name + ".errors", long, counts, pdu.Count, ops},
		}
		for j, m := range metrics.Table(common, counters) {
			m.OneLine = opTexts[j]
			ms = append(ms, m)
		}
	}
	return ms
}

// opTexts are the help texts of the metrics of an operation. Other help texts are in
// help.txt.
var opTexts = [numCounters]string{
	"calls of the operation that have ended", "requests sent, with repetitions", "calls without a reply for the time of a major timeout",
	"bytes sent, with the headers of RPC", "bytes received, with the headers of RPC", "time that requests waited before they were sent",
	"time from requests to their replies", "time of calls, from start to end", "calls that ended with an error; kernels with RPC iostats 1.0 do not count them",
}
