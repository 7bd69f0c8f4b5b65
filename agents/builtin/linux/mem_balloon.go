package linux

import (
	"bytes"
	"context"
	"slices"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// balloonMetrics returns the metrics of the balloon drivers of VMware and Hyper-V,
// through which a host takes memory from a virtual machine. Their files are in
// debugfs, which only root may read. Numbers of pages are converted to bytes.
//
// C differs: without the file all values are 0.
func balloonMetrics(h *host) []pmda.Metric {
	vmware, hyperv := newBalloon(h, "/sys/kernel/debug/vmmemctl"), newBalloon(h, "/sys/kernel/debug/hv-balloon")
	pageSize := hyperv.field("page_size")
	number := func(name string) pmda.FetchFunc { return hyperv.field(name).fetch() }
	hypervPages := func(name string) pmda.FetchFunc {
		return hyperv.pages(name, func() uint64 {
			if pageSize.n > 0 {
				return pageSize.n
			}
			return uint64(h.PageSize)
		})
	}
	vmwarePages := func(name string) pmda.FetchFunc {
		return vmware.pages(name, func() uint64 { return uint64(h.PageSize) })
	}
	return slices.Concat(table(pmda.Metric{Source: vmware.source}, []row{
		{35, 4, "mem.vmmemctl.current", u64, instant, octet, vmwarePages("current")},
		{35, 5, "mem.vmmemctl.target", u64, instant, octet, vmwarePages("target")},
	}), table(pmda.Metric{Source: hyperv.source}, []row{
		{35, 6, "hyperv.balloon.state", u32, instant, none, number("state")},
		{35, 7, "hyperv.balloon.pagesize", u32, instant, octet, number("page_size")},
		{35, 8, "hyperv.balloon.onlined", u64, instant, octet, hypervPages("pages_onlined")},
		{35, 9, "hyperv.balloon.added", u64, instant, octet, hypervPages("pages_added")},
		{35, 10, "hyperv.balloon.ballooned", u64, instant, octet, hypervPages("pages_ballooned")},
		{35, 11, "hyperv.balloon.total_committed", u64, instant, octet, hypervPages("total_pages_committed")},
	}))
}

// A balloon is a file with a name and a number in each line:
//
//	target             :      1023777
//	target             :          768 (0 failed)
//
// A line with more than that, as the second one, counts something else.
type balloon struct {
	h      *host
	path   string
	fields map[string]*optionalUint
	source *pmda.Source
}

func newBalloon(h *host, path string) *balloon {
	b := &balloon{h: h, path: path, fields: make(map[string]*optionalUint)}
	b.source = &pmda.Source{Read: b.read}
	return b
}

// maxBalloon is the size of the largest file that is read, in bytes.
const maxBalloon = 16 << 10

func (b *balloon) read(context.Context, *pmda.Request) error {
	for _, f := range b.fields {
		*f = optionalUint{}
	}
	text, _ := b.h.hostReader.Path(b.path).Text(maxBalloon) // only root may read it
	for len(text) > 0 {
		var line []byte
		line, text = sysfile.CutLine(text)
		name, value, _ := bytes.Cut(line, []byte{':'})
		word, rest := sysfile.Field(value)
		if f := b.fields[string(bytes.TrimSpace(name))]; f != nil && len(bytes.TrimSpace(rest)) == 0 {
			f.n, f.ok = sysfile.Uint(word)
		}
	}
	return nil
}

// field returns the field with a name, and adds it if necessary.
func (b *balloon) field(name string) *optionalUint {
	if b.fields[name] == nil {
		b.fields[name] = new(optionalUint)
	}
	return b.fields[name]
}

// pages returns a FetchFunc for a number of pages, converted to bytes.
func (b *balloon) pages(name string, size func() uint64) pmda.FetchFunc {
	f := b.field(name)
	return pmda.FromUint(func() (uint64, bool) { return f.n * size(), f.ok })
}
