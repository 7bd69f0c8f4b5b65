package peertest

import (
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// Under PCP's pmcd our openmetrics and nfsclient, PCP's in Python and ours again have the same numbers,
// which are in the same bytes of the same files, with the same owners.
func TestRoundTrip(t *testing.T) {
	peer.Require(t)
	testutil.NeedRoot(t)
	python := map[string]string{
		"openmetrics": "/usr/bin/python3 " + testutil.NeedPeer(t, pythonOpenMetrics),
		"nfsclient":   "/usr/bin/python3 " + testutil.NeedPeer(t, pythonNFSClient),
	}
	ours := make(map[string]string)
	for name := range python {
		ours[name] = peer.Must(peer.PMDA(name))(t)
	}
	pcp := peer.Must(user.Lookup("pcp"))(t)
	uid, gid := peer.Must(strconv.Atoi(pcp.Uid))(t), peer.Must(strconv.Atoi(pcp.Gid))(t)
	pages := filepath.Join(peer.Must(peer.ModuleRoot())(t), "agents", "builtin", "openmetrics", "testdata", "pages")

	for _, owner := range []string{"root", "pcp"} { // of the agent openmetrics, if it is ours
		t.Run(owner, func(t *testing.T) {
			dir := t.TempDir()
			saved := filepath.Join(dir, "var", "config", "pmda")
			for _, path := range []string{saved, filepath.Join(dir, "sources")} {
				if err := os.MkdirAll(path, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chown(saved, uid, gid); err != nil { // as PCP has it
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // for pcp
				t.Fatal(err)
			}
			for name, text := range map[string]string{"mountstats": moreMounts, "sources/etcd.url": "", "sources/cadvisor.url": "", "sources/jmx.url": ""} {
				if page, ok := strings.CutSuffix(filepath.Base(name), ".url"); ok {
					copied := filepath.Join(dir, page)
					if err := os.WriteFile(copied, peer.Must(os.ReadFile(filepath.Join(pages, page+".txt")))(t), 0o644); err != nil {
						t.Fatal(err)
					}
					text = "file://" + copied + "\n"
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var files map[string]string
			var values string
			for i, step := range []struct {
				name  string
				agent map[string]string
				user  string
			}{{"ours", ours, owner}, {"Python", python, "root"}, {"ours again", ours, owner}} {
				t.Run(step.name, func(t *testing.T) {
					d := peer.StartT(t, peer.CPmcd, peer.Config{
						Agents: []string{
							"openmetrics 144 pipe binary notready " + step.agent["openmetrics"] + " -d 144 -u " + step.user + " -c " + filepath.Join(dir, "sources"),
							"nfsclient 62 pipe binary " + step.agent["nfsclient"],
						},
						PMNS: "root {\n\topenmetrics 144:*:*\n\tnfsclient 62:*:*\n}\n",
						Bare: true,
						Env:  []string{"PCP_VAR_DIR=" + filepath.Join(dir, "var"), "NFSCLIENT_MOUNTSTATS_PATH=" + filepath.Join(dir, "mountstats")},
					})
					waitOpenMetrics(t, d)
					o := peer.Must(d.Run(t.Context(), peer.Unix, words("pminfo -h {host} -fm openmetrics.etcd openmetrics.cadvisor openmetrics.jmx nfsclient.options.vers nfsclient.bytes nfsclient.events")))(t)
					blocks := strings.Split(strings.TrimSpace(o.Stdout), "\n\n") // names are in the order in which sources reply
					slices.Sort(blocks)
					now := strings.Join(blocks, "\n\n")
					if i == 0 {
						values = now
					}
					same(t, "values", now, values)
				})
				now := savedFiles(t, saved)
				if i == 0 {
					files = now
					if want := fmt.Sprintf("owner %s ", map[string]string{"root": "0", "pcp": pcp.Uid}[owner]); !strings.HasPrefix(files["144.1.py"], want) {
						t.Errorf("144.1.py: %s, want %s", files["144.1.py"], want)
					}
				}
				if len(files) < 8 || !strings.Contains(values, "/mnt/b") || !strings.Contains(values, "etcd") {
					t.Fatalf("%d files\n%s", len(files), values)
				}
				for _, name := range slices.Sorted(maps.Keys(files)) {
					same(t, step.name+": "+name, now[name], files[name])
				}
				same(t, step.name+": files", len(now), len(files))
			}
		})
	}
}

var savedTimes = regexp.MustCompile(`(?m)^(\d+) \d{9,} `)

// savedFiles returns the owner, the mode and the text of each file in a directory. The times that pmdaCache
// saves are left out.
func savedFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, path := range peer.Must(filepath.Glob(filepath.Join(dir, "*")))(t) {
		st := peer.Must(os.Stat(path))(t)
		sys := st.Sys().(*syscall.Stat_t)
		text := string(peer.Must(os.ReadFile(path))(t))
		if filepath.Ext(path) != ".py" {
			text = savedTimes.ReplaceAllString(text, "$1 TIME ")
		}
		all[filepath.Base(path)] = fmt.Sprintf("owner %d group %d mode %v\n%s", sys.Uid, sys.Gid, st.Mode(), text)
	}
	return all
}
