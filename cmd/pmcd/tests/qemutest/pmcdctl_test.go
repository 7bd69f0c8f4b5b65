package qemutest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// withoutTime returns what a client has printed, without times.
func withoutTime(o peer.Output) string {
	return regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`).ReplaceAllString(o.String(), "TIME")
}

// As a client of PCP's pmcd, pmcdctl for another processor prints what the one for this
// machine's prints.
func TestPmcdctl(t *testing.T) {
	c := peer.StartT(t, peer.CPmcd, peer.Config{})
	native := nativePmcdctl(t)
	eachProcessor(t, func(t *testing.T, p processor) {
		foreign := p.pmcdctl(t)
		for _, tt := range []struct{ args, want string }{
			{"list", "hinv.ncpu"},
			{"list -l sample", "sample.long.ten"},
			{"describe sample.long sample.double sample.aggregate hinv", "hinv.ncpu"},
			{"describe --json sample.colour", "green"},
			{"get hinv.ncpu hinv.physmem hinv.cpu.vendor pmcd.version", "6.0.3"},
			{"get sample.long.ten sample.longlong.million sample.ulong.million sample.ulonglong.million sample.float.hundred sample.double.million sample.string sample.aggregate", "1000000"},
			{"get --json sample.long.ten sample.double.million sample.bin", "bin-900"}, // with the time
			{"set pmcd.control.timeout 60", "60"},
			{"get no.such", ""},
		} {
			t.Run(tt.args, func(t *testing.T) {
				command := strings.Fields(tt.args)
				command = append([]string{command[0], "-h", "{host}"}, command[1:]...)
				run := func(program string) peer.Output {
					o, err := c.Run(t.Context(), peer.TCP4, peer.Client{Args: append([]string{program}, command...)})
					if err != nil {
						t.Fatal(err)
					}
					return o
				}
				got, want := run(foreign), run(native)
				if d := firstDifference(withoutTime(got), withoutTime(want)); d != "" {
					t.Error(d)
				}
				if !strings.Contains(want.Stdout, tt.want) {
					t.Errorf("no %q:\n%s", tt.want, want)
				}
			})
		}
	})
}
