package linux

import (
	"context"

	"github.com/gopcp/pmcd/agents/pmda"
)

// zswapMetrics returns the metrics of the parameters of zswap, see the kernel's
// Documentation/admin-guide/mm/zswap.rst.
//
// C differs: without the files the values are 0 and "".
func zswapMetrics(h *host) []pmda.Metric {
	const dir = "/sys/module/zswap/parameters/"
	percent := pmda.FromUint(func() (uint64, bool) { return h.hostReader.Path(dir).Str("max_pool_percent").Number() })
	enabled := func(_ context.Context, v *pmda.Value) error {
		if b := h.hostReader.Path(dir).Str("enabled").Value(); len(b) > 0 {
			v.SetBytes(b[:1])
		}
		return nil
	}
	return table(pmda.Metric{}, []row{
		{35, 2, "sysfs.module.zswap.max_pool_percent", u32, instant, none, percent},
		{35, 3, "sysfs.module.zswap.enabled", str, instant, none, enabled},
	})
}
