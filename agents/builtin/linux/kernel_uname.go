package linux

import (
	"bytes"
	"context"
	"os"
	"slices"
	"syscall"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// uname has the result of uname(2) and the name of the distribution in /etc.
type uname struct {
	h    *host
	u    syscall.Utsname
	name []byte // of the distribution
}

func (u *uname) read(context.Context, *pmda.Request) error {
	u.u = syscall.Utsname{}
	err := syscall.Uname(&u.u)
	if u.h.container != nil && err == nil {
		var name string
		name, err = u.h.rootClient.HostName(u.h.container.name)
		setUtsText(u.u.Nodename[:], name)
	}
	return err
}

// setUtsText sets a field of Utsname. The text ends in a NUL.
func setUtsText[C int8 | uint8](field []C, text string) {
	clear(field)
	for i := range min(len(text), len(field)-1) {
		field[i] = C(text[i])
	}
}

// utsText returns the text of a field of Utsname. The elements are signed on some
// architectures only.
func utsText[C int8 | uint8](field []C) []byte {
	b := make([]byte, 0, len(field))
	for _, c := range field {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return b
}

// releases are files of /etc whose first line names the distribution.
var releases = []struct{ file, prefix string }{
	{"debian_version", "Debian "},
	{"oracle-release", ""},
	{"fedora-release", ""},
	{"redhat-release", ""},
	{"slackware-version", ""},
	{"SuSE-release", ""},
	{"lsb-release", ""},
	{"amazon-linux-release", ""},
}

// readDistro reads the first of the files that exists. As in PCP, it does not try
// the next ones if that file is empty.
func (u *uname) readDistro(context.Context, *pmda.Request) error {
	u.name = append(u.name[:0], '?')
	for _, r := range releases {
		f := sysfile.NewFile(u.h.path("etc/" + r.file))
		b, err := f.Read()
		f.Close()
		if b == nil || err != nil {
			continue
		}
		line, _ := sysfile.CutLine(b)
		if r.file == "lsb-release" {
			line = bytes.TrimPrefix(bytes.TrimPrefix(line, []byte("DISTRIB_ID = ")), []byte("DISTRIB_ID="))
		}
		if len(b) > 0 {
			u.name = append(append(u.name[:0], r.prefix...), line...)
		}
		break
	}
	return nil
}

// machineMetrics returns the metrics that do not come from files of the kernel.
func machineMetrics(h *host) []pmda.Metric {
	u := &uname{h: h}
	machine := func() []byte { return utsText(u.u.Machine[:]) }
	text := func(f func() []byte) pmda.FetchFunc {
		return func(_ context.Context, v *pmda.Value) error {
			v.SetBytes(f())
			return nil
		}
	}
	all := func() []byte {
		return bytes.Join([][]byte{
			utsText(u.u.Sysname[:]), utsText(u.u.Nodename[:]), utsText(u.u.Release[:]), utsText(u.u.Version[:]), machine(),
		}, []byte{' '})
	}
	// pmcd and libpcp put the variables of pcp.conf into the environment of agents.
	version := os.Getenv("PCP_VERSION")
	unsupported := func(context.Context, *pmda.Value) error { return pdu.ErrnoAppVersion }
	return slices.Concat(table(pmda.Metric{}, []row{
		{0, 10, "swap.in", u32, counter, count, unsupported}, // only Linux 2.4 has it
		{0, 11, "swap.out", u32, counter, count, unsupported},
		{0, 48, "kernel.all.hz", u32, discrete, perSec, pmda.FromUint(func() (uint64, bool) { return h.Hertz, true })},
		{1, 11, "hinv.pagesize", u32, discrete, octet, pmda.FromUint(func() (uint64, bool) { return uint64(h.PageSize), true })},
		{12, 6, "pmda.version", str, discrete, none, func(_ context.Context, v *pmda.Value) error {
			if version != "" {
				v.SetString(version)
			}
			return nil
		}},
	}), table(pmda.Metric{Source: &pmda.Source{Read: u.read}}, []row{
		{12, 0, "kernel.uname.release", str, discrete, none, text(func() []byte { return utsText(u.u.Release[:]) })},
		{12, 1, "kernel.uname.version", str, discrete, none, text(func() []byte { return utsText(u.u.Version[:]) })},
		{12, 2, "kernel.uname.sysname", str, discrete, none, text(func() []byte { return utsText(u.u.Sysname[:]) })},
		{12, 3, "kernel.uname.machine", str, discrete, none, text(machine)},
		{12, 4, "kernel.uname.nodename", str, discrete, none, text(func() []byte { return utsText(u.u.Nodename[:]) })},
		{12, 5, "pmda.uname", str, discrete, none, text(all)},
		{18, 7, "hinv.machine", str, discrete, none, text(machine)},
	}), table(pmda.Metric{Source: &pmda.Source{Read: u.readDistro}}, []row{
		{12, 7, "kernel.uname.distro", str, discrete, none, text(func() []byte { return u.name })},
	}))
}
