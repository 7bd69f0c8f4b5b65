package linux

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/sysfile"
	"github.com/gopcp/pmcd/pmcdconf"
)

// notPhysical are interfaces whose packets other interfaces count too, unless
// interfaces.conf says otherwise.
const notPhysical = "^(lo|bond[0-9]+|team[0-9]+|face)$"

// readConf reads interfaces.conf: a regular expression of regex(7), with blanks
// and comments.
func (n *interfaces) readConf() {
	n.skip = regexp.MustCompile(notPhysical)
	dir := n.h.ConfDir
	if dir == "" {
		dir = sysconfDir()
	}
	b, err := os.ReadFile(filepath.Join(dir, "linux", "interfaces.conf"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var pattern []byte
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		line, _, _ = bytes.Cut(line, []byte{'#'})
		pattern = append(pattern, bytes.Join(bytes.Fields(line), nil)...)
	}
	if err == nil && len(pattern) > 0 {
		var re *regexp.Regexp
		if re, err = regexp.CompilePOSIX(string(pattern)); err == nil {
			n.skip = re
		}
	}
	if err != nil {
		n.h.Log.Warn("linux: interfaces.conf: " + err.Error())
	}
}

// sysconfDir returns PCP_SYSCONF_DIR, which has a default in pcp.conf.
func sysconfDir() string {
	const name = "PCP_SYSCONF_DIR"
	if dir := os.Getenv(name); dir != "" {
		return dir
	}
	conf, _ := pmcdconf.LoadPCPConf(os.LookupEnv) // without it PCP is not installed
	for _, v := range conf {
		if v.Name == name && v.Value != "" {
			return v.Value
		}
	}
	return "/etc/pcp"
}

// all is the sum of numbers of physical interfaces.
func (n *interfaces) all(places ...int) pmda.FetchFunc {
	return pmda.Number(func() (sum uint64, ok bool) {
		ok = true
		n.insts.Each(func(_ int32, _ string, data any) bool {
			if f := data.(*iface); f.physical {
				var u uint64
				u, ok = f.count.Sum(places, netFields)
				sum += u
			}
			return ok
		})
		return sum, ok
	})
}

func (n *interfaces) allMetrics() []pmda.Metric {
	return pmda.Table(pmda.Metric{Source: n.source}, []row{
		{90, 0, "network.all.in.bytes", u64, counter, octet, n.all(inBytes)},
		{90, 1, "network.all.in.packets", u64, counter, count, n.all(inPackets)},
		{90, 2, "network.all.in.errors", u64, counter, count, n.all(inErrors)},
		{90, 3, "network.all.in.drops", u64, counter, count, n.all(inDrops)},
		{90, 4, "network.all.out.bytes", u64, counter, octet, n.all(outBytes)},
		{90, 5, "network.all.out.packets", u64, counter, count, n.all(outPackets)},
		{90, 6, "network.all.out.errors", u64, counter, count, n.all(outErrors)},
		{90, 7, "network.all.out.drops", u64, counter, count, n.all(outDrops)},
		{90, 8, "network.all.total.bytes", u64, counter, octet, n.all(inBytes, outBytes)},
		{90, 9, "network.all.total.packets", u64, counter, count, n.all(inPackets, outPackets)},
		{90, 10, "network.all.total.errors", u64, counter, count, n.all(inErrors, outErrors)},
		{90, 11, "network.all.total.drops", u64, counter, count, n.all(inDrops, outDrops)},
	})
}
