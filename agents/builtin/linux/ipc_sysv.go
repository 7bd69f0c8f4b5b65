package linux

import (
	"context"
	"fmt"
	osuser "os/user"
	"strconv"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// An ipc reads a file of /proc/sysvipc, proc(5): shared memory segments, message
// queues or sets of semaphores (sysvipc(7)). The first line has the names of the
// columns.
//
//	key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime
//	  0     229409   666          3     0     0     0     0 1795282082          0
type ipc struct {
	file      *sysfile.File
	source    *pmda.Source
	columns   []string // names of the columns that are used
	positions []int    // of these columns in a line; -1 if the file does not have the column
	instances *instances[ipcObject]
	exists    bool
	objects   uint64
	sums      []uint64 // by column
	owners    map[uint64]string
}

type ipcObject struct {
	key  int32
	nums []optionalUint // by column
}

// The first columns of all files.
const (
	ipcID = iota
	ipcPerms
	ipcUID
	ipcFirst // the first of the other columns
)

func newIPC(h *host, name, id string, serial int, columns ...string) *ipc {
	columns = append([]string{id, "perms", "uid"}, columns...)
	p := &ipc{
		file:      h.file("proc/sysvipc/" + name),
		columns:   columns,
		positions: make([]int, len(columns)),
		sums:      make([]uint64, len(columns)),
		instances: newUnsavedInstances[ipcObject](h, serial),
		owners:    make(map[uint64]string),
	}
	p.source = &pmda.Source{Read: p.read}
	return p
}

func (p *ipc) read(context.Context, *pmda.Request) error {
	clear(p.owners)
	b, err := p.file.Read()
	p.parse(b)
	return err
}

func (p *ipc) parse(b []byte) {
	p.instances.begin()
	defer p.instances.end()
	p.exists, p.objects = len(b) > 0, 0
	clear(p.sums)
	header, b := sysfile.CutLine(b)
	p.header(header)
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		word, rest := sysfile.Field(line)
		key, err := strconv.ParseInt(string(word), 10, 32)
		if err != nil {
			continue
		}
		id, _ := sysfile.Field(rest)
		if _, ok := sysfile.Uint(id); !ok {
			continue
		}
		if o := p.instances.add(id); o != nil {
			o.key = int32(key)
			p.set(o, rest)
			p.objects++
		}
	}
}

// header finds the positions of the columns in the first line.
func (p *ipc) header(line []byte) {
	for i := range p.positions {
		p.positions[i] = -1
	}
	_, line = sysfile.Field(line) // key
	for position := 0; ; position++ {
		var word []byte
		if word, line = sysfile.Field(line); len(word) == 0 {
			return
		}
		for i, name := range p.columns {
			if string(word) == name {
				p.positions[i] = position
			}
		}
	}
}

// set sets o to the numbers of a line after the key.
func (p *ipc) set(o *ipcObject, line []byte) {
	if o.nums == nil {
		o.nums = make([]optionalUint, len(p.columns))
	}
	var r sysfile.Record
	r.Parse(line)
	for i, position := range p.positions {
		o.nums[i] = optionalUint{}
		if position >= 0 && position < len(r.Nums) {
			n, ok := r.At(position)
			o.nums[i] = optionalUint{n, ok}
			p.sums[i] += n
		}
	}
}

func (p *ipc) indom() *pmda.InDom {
	return &pmda.InDom{Serial: int(p.instances.cache.InDom().Serial()), Insts: p.instances, Source: p.source}
}

// value returns a FetchFunc for a column of each object.
func (p *ipc) value(column int) pmda.FetchFunc {
	return pmda.FromData(func(v *pmda.Value, o *ipcObject) { o.nums[column].setValue(v) })
}

// sum returns a FetchFunc for the sum of a column.
func (p *ipc) sum(column int) pmda.FetchFunc {
	return pmda.FromUint(func() (uint64, bool) { return p.sums[column], p.exists && p.positions[column] >= 0 })
}

// count returns a FetchFunc for the number of objects.
func (p *ipc) count() pmda.FetchFunc {
	return pmda.FromUint(func() (uint64, bool) { return p.objects, p.exists })
}

func ipcKey(v *pmda.Value, o *ipcObject) { v.SetString(fmt.Sprintf("0x%08x", uint32(o.key))) }

// lookupUser is user.LookupId, except in tests.
var lookupUser = osuser.LookupId

// owner returns a FetchFunc for the name of the owner, or the user id if it has no name. In each
// request it looks up a user once: one user may own thousands of objects.
func (p *ipc) owner() pmda.FetchFunc {
	return pmda.FromData(func(v *pmda.Value, o *ipcObject) {
		uid := o.nums[ipcUID]
		if !uid.ok {
			return
		}
		name, ok := p.owners[uid.n]
		if !ok {
			name = strconv.FormatUint(uid.n, 10)
			if u, err := lookupUser(name); err == nil {
				name = u.Username
			}
			p.owners[uid.n] = name
		}
		v.SetString(name)
	})
}

// ipcMode sets v to the permissions: a decimal number with the octal digits that the
// file has.
func ipcMode(v *pmda.Value, o *ipcObject) {
	if f := o.nums[ipcPerms]; f.ok {
		v.SetUint(f.n % 1000)
	}
}

func semMetrics(h *host) []pmda.Metric {
	const nsems = ipcFirst
	p := newIPC(h, "sem", "semid", indomSem, "nsems")
	return append(table(pmda.Metric{InDom: p.indom()}, []row{
		{66, 0, "ipc.sem.key", str, discrete, none, pmda.FromData(ipcKey)},
		{66, 1, "ipc.sem.owner", str, discrete, none, p.owner()},
		{66, 2, "ipc.sem.perms", u32, instant, none, pmda.FromData(ipcMode)},
		{66, 3, "ipc.sem.nsems", u32, instant, none, p.value(nsems)},
	}), table(pmda.Metric{Source: p.source}, []row{
		{61, 0, "ipc.sem.used_sem", u32, instant, none, p.count()},
		{61, 1, "ipc.sem.tot_sem", u32, instant, none, p.sum(nsems)},
	})...)
}

func msgMetrics(h *host) []pmda.Metric {
	const bytes, messages, sender, receiver = ipcFirst, ipcFirst + 1, ipcFirst + 2, ipcFirst + 3
	p := newIPC(h, "msg", "msqid", indomMsg, "cbytes", "qnum", "lspid", "lrpid")
	return append(table(pmda.Metric{InDom: p.indom()}, []row{
		{65, 0, "ipc.msg.key", str, discrete, none, pmda.FromData(ipcKey)},
		{65, 1, "ipc.msg.owner", str, discrete, none, p.owner()},
		{65, 2, "ipc.msg.perms", u32, instant, none, pmda.FromData(ipcMode)},
		{65, 3, "ipc.msg.msgsz", u32, discrete, octet, p.value(bytes)},
		{65, 4, "ipc.msg.messages", u32, instant, none, p.value(messages)},
		{65, 5, "ipc.msg.last_send_pid", u32, instant, octet, p.value(sender)},
		{65, 6, "ipc.msg.last_recv_pid", u32, instant, none, p.value(receiver)},
	}), table(pmda.Metric{Source: p.source}, []row{
		{62, 0, "ipc.msg.used_queues", u32, instant, none, p.count()},
		{62, 1, "ipc.msg.tot_msg", u32, instant, none, p.sum(messages)},
		{62, 2, "ipc.msg.tot_bytes", u32, instant, octet, p.sum(bytes)},
	})...)
}

func shmMetrics(h *host) []pmda.Metric {
	const size, creator, last, attached, rss, swapped = ipcFirst, ipcFirst + 1, ipcFirst + 2, ipcFirst + 3, ipcFirst + 4, ipcFirst + 5
	p := newIPC(h, "shm", "shmid", indomShm, "size", "cpid", "lpid", "nattch", "rss", "swap")
	zero := pmda.FromUint(func() (uint64, bool) { return 0, p.exists })
	pages := pmda.FromUint(func() (total uint64, ok bool) {
		page := uint64(h.PageSize)
		for o := range p.instances.all {
			total += (o.nums[size].n + page - 1) / page * page
		}
		return total, p.exists
	})
	// The flags SHM_DEST and SHM_LOCKED of sys/shm.h are the octal digits of perms
	// above the permissions.
	status := pmda.FromData(func(v *pmda.Value, o *ipcObject) {
		if f := o.nums[ipcPerms]; f.ok {
			v.SetString([]string{"", "dest", "locked", "dest locked"}[f.n/1000&3])
		}
	})
	return append(table(pmda.Metric{InDom: p.indom()}, []row{
		{64, 0, "ipc.shm.key", str, discrete, none, pmda.FromData(ipcKey)},
		{64, 1, "ipc.shm.owner", str, discrete, none, p.owner()},
		{64, 2, "ipc.shm.perms", u32, instant, none, pmda.FromData(ipcMode)},
		{64, 3, "ipc.shm.segsz", u32, discrete, octet, p.value(size)},
		{64, 4, "ipc.shm.nattch", u32, instant, none, p.value(attached)},
		{64, 5, "ipc.shm.status", str, instant, none, status},
		{64, 6, "ipc.shm.creator_pid", u32, discrete, none, p.value(creator)},
		{64, 7, "ipc.shm.last_access_pid", u32, instant, none, p.value(last)},
	}), table(pmda.Metric{Source: p.source}, []row{
		{56, 0, "ipc.shm.tot", u32, instant, octet, pages},
		{56, 1, "ipc.shm.rss", u32, instant, octet, p.sum(rss)},
		{56, 2, "ipc.shm.swp", u32, instant, octet, p.sum(swapped)},
		{56, 3, "ipc.shm.used_ids", u32, instant, none, p.count()},
		{56, 4, "ipc.shm.swap_attempts", u32, instant, none, zero},
		{56, 5, "ipc.shm.swap_successes", u32, instant, none, zero},
	})...)
}
