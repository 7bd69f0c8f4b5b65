package linux

import (
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// uptime reads /proc/uptime, proc(5): the time since the start of the kernel, and
// the sum of the idle times of all CPUs, in seconds.
//
//	17037.56 14116.73
type uptime struct {
	file *sysfile.File
	secs [2]float64
	ok   [2]bool
}

func newUptime(h *host) *uptime { return &uptime{file: h.file("proc/uptime").NeverBlocks(0)} }

func (u *uptime) read(context.Context, *pmda.Request) error {
	b, err := u.file.Read()
	line, _ := sysfile.CutLine(b)
	for i := range u.secs {
		var word []byte
		word, line = sysfile.Field(line)
		u.secs[i], u.ok[i] = sysfile.Float(word)
	}
	return err
}

// at returns a FetchFunc for number i of the line.
func (u *uptime) at(i int) pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error {
		if u.ok[i] {
			v.SetFloat(u.secs[i])
		}
		return nil
	}
}

func (u *uptime) metrics() []pmda.Metric {
	return table(pmda.Metric{Source: &pmda.Source{Read: u.read}}, []row{
		{26, 0, "kernel.all.uptime", double, instant, sec, u.at(0)},
		{26, 1, "kernel.all.idletime", double, instant, sec, u.at(1)},
	})
}
