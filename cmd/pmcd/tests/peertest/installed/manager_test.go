package installed

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// TestPeerServiceManager has PCP's rc script start pmcd as the unit of PCP does
// (Type=notify), and reads what a service manager is told.
func TestPeerServiceManager(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, path string
		// Up to when the script ends, from then on to the end; the watchdog's
		// are left out.
		start, rest string
	}{
		{"C", peer.CPmcd, "READY=1 MAINPID=PID;", ""},
		{"ours", peer.Must(peer.UnderTest())(t), "MAINPID=PID STATUS=starting agents;",
			"READY=1 MAINPID=PID STATUS=serving, N of N agents ready;" +
				"RELOADING=1 MONOTONIC_USEC=N STATUS=reloading;" +
				"READY=1 MAINPID=PID STATUS=serving, N of N agents ready;" +
				"STOPPING=1 STATUS=stopping agents;"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := peer.BootMachine(t, tt.path)
			conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: m.Path("/run/notify")})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			// The queue of a socket is short.
			said := make(chan string, 1000)
			go func() { // ends with conn
				defer close(said)
				buf := make([]byte, 4096)
				for {
					n, err := conn.Read(buf)
					if err != nil {
						return
					}
					said <- string(buf[:n])
				}
			}()
			run := func(script string) string {
				t.Helper()
				o, err := m.Run(t.Context(), "/", peer.Client{Args: []string{"sh", "-c", script},
					Env: []string{"NOTIFY_SOCKET=/run/notify", "WATCHDOG_USEC=2000000", "WATCHDOG_PID=1"}})
				if err != nil || o.Code != 0 {
					t.Fatalf("%s: %v\n%s\n%s", script, err, o, m.Log())
				}
				return strings.TrimSpace(o.Stdout)
			}
			run("/etc/init.d/pmcd start-systemd")
			pid := run("cat /run/pcp/pmcd.pid")
			var all []string
			for len(said) > 0 {
				all = append(all, <-said)
			}
			fed := false
			text := func(list []string) string {
				var b strings.Builder
				for _, msg := range list {
					if msg == "WATCHDOG=1" {
						fed = true
						continue
					}
					msg = strings.ReplaceAll(msg, "MAINPID="+pid, "MAINPID=PID")
					msg = regexp.MustCompile(`=\d{2,}|\b\d+ of \d+\b`).ReplaceAllStringFunc(msg, func(s string) string {
						return regexp.MustCompile(`\d+`).ReplaceAllString(s, "N")
					})
					b.WriteString(strings.ReplaceAll(msg, "\n", " ") + ";")
				}
				return b.String()
			}
			// The agents may have been faster than the script.
			got := text(all)
			if !strings.HasPrefix(got, tt.start) || !strings.HasPrefix(tt.start+tt.rest, got) {
				t.Errorf("at the start %q, want %q", got, tt.start)
			}
			run(rc("status")) // and no script runs any more
			if tt.rest != "" {
				var environ []string
				testutil.Eventually(t, "there are agents", func() (there bool) {
					environ, _ = filepath.Glob(m.Path("/proc/[0-9]*/environ"))
					return len(environ) >= 5
				})
				for _, path := range environ {
					id := filepath.Base(filepath.Dir(path))
					if env, _ := os.ReadFile(path); id != pid && strings.Contains(string(env), "NOTIFY_SOCKET=") {
						cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
						t.Errorf("%q has NOTIFY_SOCKET", cmdline)
					}
				}
			}
			run(hup)
			for tt.rest != "" && !fed {
				select {
				case msg := <-said:
					all = append(all, msg)
					text([]string{msg})
				case <-time.After(testutil.Hangs):
					t.Fatal("the watchdog hears nothing")
				}
			}
			run("/etc/init.d/pmcd stop-systemd")
			last, err := net.DialUnix("unixgram", nil, conn.LocalAddr().(*net.UnixAddr))
			if err != nil {
				t.Fatal(err)
			}
			defer last.Close()
			const end = "that was all"
			if _, err := last.Write([]byte(end)); err != nil {
				t.Fatal(err)
			}
			for msg := range said {
				if msg == end {
					break
				}
				all = append(all, msg)
			}
			if got, want := text(all), tt.start+tt.rest; got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if fed != (tt.rest != "") {
				t.Errorf("watchdog: %v", fed)
			}
		})
	}
}
