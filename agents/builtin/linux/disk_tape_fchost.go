package linux

import (
	"context"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// A classDir reads a directory of /sys/class in which each device has a directory
// with a file for each counter. As in C, a missing file counts as 0.
type classDir struct {
	h         *host
	class     string // scsi_tape
	stats     string // name of the directory with the counters
	accepts   func(device string) bool
	instances *instances[classDevice]
	source    *pmda.Source
	indom     *pmda.InDom
}

type classDevice struct{ name string }

func newClassDir(h *host, class, stats string, serial int, accepts func(string) bool) *classDir {
	c := &classDir{h: h, class: class, stats: stats, accepts: accepts, instances: newUnsavedInstances[classDevice](h, serial)}
	c.source = &pmda.Source{Read: c.read}
	c.indom = &pmda.InDom{Serial: serial, Insts: c.instances, Source: c.source}
	return c
}

func (c *classDir) read(context.Context, *pmda.Request) error {
	c.instances.begin()
	defer c.instances.end()
	for _, name := range dirNames(c.h.path("sys/class/" + c.class)) {
		if name[0] == '.' || !c.accepts(name) || !c.h.hostReader.Path("/sys/class/").Name(c.class).Str("/").Name(name).Str("/").Name(c.stats).Exists() {
			continue
		}
		if d := c.instances.add([]byte(name)); d != nil {
			d.name = name
		}
	}
	return nil
}

// number returns a FetchFunc for a counter. parse parses the text of its file.
func (c *classDir) number(file string, parse func(b []byte) uint64) pmda.FetchFunc {
	return pmda.FromData(func(v *pmda.Value, d *classDevice) {
		v.SetUint(parse(c.h.hostReader.Path("/sys/class/").Name(c.class).Str("/").Name(d.name).Str("/").Name(c.stats).Str("/").Name(file).Value()))
	})
}

// count returns a FetchFunc for the number of devices.
func (c *classDir) count() pmda.FetchFunc {
	return pmda.FromUint(func() (uint64, bool) { return uint64(c.instances.present), true })
}

// tapeMetrics returns the metrics of SCSI tapes, see the kernel's
// Documentation/scsi/st.rst.
func tapeMetrics(h *host) []pmda.Metric {
	// nst0, st0a and similar names are other modes of the device st0.
	c := newClassDir(h, "scsi_tape", "stats", indomTape, func(device string) bool {
		return strings.HasPrefix(device, "st") && isDigit(device[len(device)-1])
	})
	value := func(file string) pmda.FetchFunc {
		return c.number(file, func(b []byte) uint64 { n, _ := sysfile.Uint(b); return n })
	}
	return append(table(pmda.Metric{InDom: c.indom}, []row{
		{71, 0, "tape.dev.in_flight", u64, instant, count, value("in_flight")},
		{71, 1, "tape.dev.io_ns", u64, counter, nsec, value("io_ns")},
		{71, 2, "tape.dev.other_cnt", u64, counter, count, value("other_cnt")},
		{71, 3, "tape.dev.read_byte_cnt", u64, counter, octet, value("read_byte_cnt")},
		{71, 4, "tape.dev.read_cnt", u64, counter, count, value("read_cnt")},
		{71, 5, "tape.dev.read_ns", u64, counter, nsec, value("read_ns")},
		{71, 6, "tape.dev.resid_cnt", u64, counter, count, value("resid_cnt")},
		{71, 7, "tape.dev.write_byte_cnt", u64, counter, octet, value("write_byte_cnt")},
		{71, 8, "tape.dev.write_cnt", u64, counter, count, value("write_cnt")},
		{71, 9, "tape.dev.write_ns", u64, counter, nsec, value("write_ns")},
	}), table(pmda.Metric{Source: c.source}, []row{
		{71, 16, "hinv.ntape", u32, discrete, none, c.count()},
	})...)
}

// fcHostMetrics returns the metrics of Fibre Channel hosts. Counters are
// hexadecimal. A counter that the driver does not support has all bits set; its
// value is 0 here, as in C.
//
// C differs: in.bytes has the frames that were sent, and out.frames the bytes that
// were received.
func fcHostMetrics(h *host) []pmda.Metric {
	c := newClassDir(h, "fc_host", "statistics", indomFCHost, func(string) bool { return true })
	value := func(file string) pmda.FetchFunc { return c.number(file, fcNumber) }
	// A word of FC-PH has four bytes.
	words := func(file string) pmda.FetchFunc {
		return c.number(file, func(b []byte) uint64 { return fcNumber(b) << 2 })
	}
	return append(table(pmda.Metric{InDom: c.indom}, []row{
		{91, 0, "fchost.in.frames", u64, counter, count, value("rx_frames")},
		{91, 1, "fchost.out.frames", u64, counter, count, value("tx_frames")},
		{91, 2, "fchost.in.bytes", u64, counter, octet, words("rx_words")},
		{91, 3, "fchost.out.bytes", u64, counter, octet, words("tx_words")},
		{91, 4, "fchost.lip_count", u64, counter, count, value("lip_count")},
		{91, 5, "fchost.nos_count", u64, counter, count, value("nos_count")},
		{91, 6, "fchost.error_frames", u64, counter, count, value("error_frames")},
		{91, 7, "fchost.dumped_frames", u64, counter, count, value("dumped_frames")},
	}), table(pmda.Metric{Source: c.source}, []row{
		{91, 16, "hinv.nfchost", u32, discrete, none, c.count()},
	})...)
}

func fcNumber(b []byte) uint64 {
	if len(b) < 2 || b[0] != '0' || b[1] != 'x' {
		n, _ := sysfile.Uint(b)
		return n
	}
	n, _ := sysfile.Hex(b[2:])
	if n == 1<<64-1 {
		return 0
	}
	return n
}
