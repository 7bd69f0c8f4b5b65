package linux

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// defaultNotPhysical matches interfaces whose packets other interfaces count, too.
// interfaces.conf can replace it.
const defaultNotPhysical = "^(lo|bond[0-9]+|team[0-9]+|face)$"

// confRetry is the time after which interfaces.conf is read again if it could not
// be read.
const confRetry = time.Second

// readConf reads interfaces.conf once. If the file exists and cannot be read, it
// tries again in later fetches, and the default applies until then. It reports
// whether n.notPhysical may have changed.
func (n *interfaces) readConf() bool {
	if n.confDone || n.notPhysical != nil && time.Since(n.confTried) < confRetry {
		return false
	}
	n.confTried = time.Now()
	notPhysical, err := n.loadConf()
	n.confDone = err == nil || notPhysical != nil
	if notPhysical == nil {
		notPhysical = regexp.MustCompile(defaultNotPhysical)
	}
	if err != nil && err.Error() != n.confError {
		n.confError = err.Error()
		n.h.Log.Warn("{agent}: cannot use interfaces.conf, network.all counts the default interfaces: {error}", "error", err)
	}
	n.notPhysical = notPhysical
	return true
}

// maxInterfacesConf is the largest size of interfaces.conf, in bytes.
const maxInterfacesConf = 64 << 10

// loadConf reads interfaces.conf: a regular expression of regex(7), with blanks and
// comments. If there is no file, or no expression in it, it returns the default. If
// the expression is not valid, it returns the default and an error; if the file
// cannot be read, nil and an error.
func (n *interfaces) loadConf() (*regexp.Regexp, error) {
	byDefault := regexp.MustCompile(defaultNotPhysical)
	dir := n.h.ConfDir
	if dir == "" {
		var err error
		if dir, err = pcpconf.Dir("PCP_SYSCONF_DIR"); err != nil {
			return nil, err
		}
	}
	b, err := regular.ReadFile(filepath.Join(dir, "linux", "interfaces.conf"), maxInterfacesConf)
	if errors.Is(err, fs.ErrNotExist) {
		return byDefault, nil
	}
	if err != nil {
		return nil, err
	}
	var pattern []byte
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		line, _, _ = bytes.Cut(line, []byte{'#'})
		pattern = append(pattern, bytes.Join(bytes.Fields(line), nil)...)
	}
	if len(pattern) == 0 {
		return byDefault, nil
	}
	re, err := regexp.CompilePOSIX(string(pattern))
	if err != nil {
		return byDefault, err
	}
	return re, nil
}

// total returns a FetchFunc for the sum of numbers over all physical interfaces.
func (n *interfaces) total(indices ...int) pmda.FetchFunc {
	return pmda.FromUint(func() (sum uint64, ok bool) {
		ok = true
		n.instances.Each(func(_ int32, _ string, data any) bool {
			if f := data.(*iface); f.physical {
				var u uint64
				u, ok = f.count.Sum(indices, netFields)
				sum += u
			}
			return ok
		})
		return sum, ok
	})
}

func (n *interfaces) allMetrics() []pmda.Metric {
	return table(pmda.Metric{Source: n.source}, []row{
		{90, 0, "network.all.in.bytes", u64, counter, octet, n.total(inBytes)},
		{90, 1, "network.all.in.packets", u64, counter, count, n.total(inPackets)},
		{90, 2, "network.all.in.errors", u64, counter, count, n.total(inErrors)},
		{90, 3, "network.all.in.drops", u64, counter, count, n.total(inDrops)},
		{90, 4, "network.all.out.bytes", u64, counter, octet, n.total(outBytes)},
		{90, 5, "network.all.out.packets", u64, counter, count, n.total(outPackets)},
		{90, 6, "network.all.out.errors", u64, counter, count, n.total(outErrors)},
		{90, 7, "network.all.out.drops", u64, counter, count, n.total(outDrops)},
		{90, 8, "network.all.total.bytes", u64, counter, octet, n.total(inBytes, outBytes)},
		{90, 9, "network.all.total.packets", u64, counter, count, n.total(inPackets, outPackets)},
		{90, 10, "network.all.total.errors", u64, counter, count, n.total(inErrors, outErrors)},
		{90, 11, "network.all.total.drops", u64, counter, count, n.total(inDrops, outDrops)},
	})
}
