package linux

import (
	"context"
	"syscall"

	"github.com/gopcp/pmcd/agents/pmda"
)

// machineMetrics are what the kernel has no file for.
func machineMetrics(h *host) []pmda.Metric {
	var u syscall.Utsname
	machine := make([]byte, 0, len(u.Machine))
	if syscall.Uname(&u) == nil {
		for _, c := range u.Machine {
			if c == 0 {
				break
			}
			machine = append(machine, byte(c))
		}
	}
	return table(pmda.Metric{}, []row{
		{1, 11, "hinv.pagesize", u32, discrete, octet, number(func() (uint64, bool) { return uint64(h.PageSize), true })},
		{18, 7, "hinv.machine", str, discrete, none, func(_ context.Context, v *pmda.Value) error {
			v.Bytes(machine)
			return nil
		}},
	})
}
