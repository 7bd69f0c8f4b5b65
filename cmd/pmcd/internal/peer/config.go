package peer

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Domains of the agents in [StandardAgents].
const (
	DomainPmcd   = 2
	DomainProc   = 3
	DomainSample = 29
	DomainLinux  = 60
	DomainTxmon  = 248

	DomainTrivial = 250
	DomainSimple  = 253
)

// Config is what a daemon is started with. The zero value is the standard
// configuration.
type Config struct {
	Agents []string // lines of pmcd.conf, {dir} is the daemon's; nil: StandardAgents
	Access string   // what follows [access], if not empty
	PMNS   string   // text of the name space; empty: StandardPMNS
	Args   []string // further arguments of the daemon
	Env    []string // further environment

	Files map[string]string // texts of further files in the daemon's directory
	// Embedded is ours with what is compiled in; Agents, Access and PMNS are not
	// used.
	Embedded bool
	// Bare makes no files for agents and labels, and no client connects before the
	// test does: Start sees in the log that the daemon serves.
	Bare bool
}

// StandardAgents are the lines of pmcd.conf that tests use: one agent in
// pmcd's process, two demonstration agents and the two that matter most.
func StandardAgents() ([]string, error) {
	simple, err := SimplePMDA()
	if err != nil {
		return nil, err
	}
	// The demonstration agents become user pcp, which only root can.
	as := ""
	if os.Geteuid() != 0 {
		u, err := user.Current()
		if err != nil {
			return nil, err
		}
		as = " -U " + u.Username
	}
	return []string{
		fmt.Sprintf("pmcd\t%d\tdso\tpmcd_init\t%s/pmcd/pmda_pmcd.so", DomainPmcd, pmdaDir),
		fmt.Sprintf("simple\t%d\tpipe\tbinary\t%s -d %d%s", DomainSimple, simple, DomainSimple, as),
		fmt.Sprintf("sample\t%d\tpipe\tbinary\t%s/sample/pmdasample -d %d%s", DomainSample, pmdaDir, DomainSample, as),
		fmt.Sprintf("linux\t%d\tpipe\tbinary\t%s/linux/pmdalinux", DomainLinux, pmdaDir),
		fmt.Sprintf("proc\t%d\tpipe\tbinary\t%s/proc/pmdaproc -d %d", DomainProc, pmdaDir, DomainProc),
	}, nil
}

var (
	cComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	pmnsRoot = regexp.MustCompile(`(?m)^root\s*\{\s*$`)
)

// StandardPMNS is the installed name space with the demonstration agents'
// names added. It has names of several domains that have no agent.
func StandardPMNS() (string, error) {
	text, err := os.ReadFile(stockPMNS)
	if err != nil {
		return "", err
	}
	root := pmnsRoot.FindIndex(text)
	if root == nil {
		return "", fmt.Errorf("%s: no root", stockPMNS)
	}
	var b bytes.Buffer
	b.Write(text[:root[1]])
	b.WriteString("\n\tsimple\n\tsample")
	b.Write(text[root[1]:])
	for _, a := range []struct {
		name   string
		domain int
	}{{"simple", DomainSimple}, {"sample", DomainSample}} {
		t, err := os.ReadFile(filepath.Join(pmdaDir, a.name, "pmns"))
		if err != nil {
			return "", err
		}
		t = cComment.ReplaceAll(t, nil)
		b.Write(bytes.ReplaceAll(t, []byte(strings.ToUpper(a.name)+":"), []byte(strconv.Itoa(a.domain)+":")))
	}
	return b.String(), nil
}

// contextLabels are the label files of the private PCP_SYSCONF_DIR: nested,
// overridden, optional and broken ones.
var contextLabels = map[string]string{
	"labels/10site.json":     `{"site":"here","rack":12,"deep":{"a":1,"b":"two"},"list":[1,2,3]}`,
	"labels/20override.json": `{"site":"there"}`,
	"labels/30broken.json":   `{"site":`,
	"labels/optional/x.json": `{"shift":"night","rack":13}`,
}

// write makes the files that a daemon with this configuration reads.
func (c Config) write(dir string) error {
	agents, pmns := c.Agents, c.PMNS
	var err error
	if agents == nil {
		if agents, err = StandardAgents(); err != nil {
			return err
		}
	}
	if pmns == "" {
		if pmns, err = StandardPMNS(); err != nil {
			return err
		}
	}
	conf := strings.ReplaceAll(strings.Join(agents, "\n")+"\n", "{dir}", dir)
	if c.Access != "" {
		conf += "\n[access]\n" + c.Access
	}
	// Directories that agents write to after they became another user.
	for _, d := range []string{"", "var", "var/pmcd", "var/config", "var/config/pmda", "run", "tmp", "log", "home"} {
		d = filepath.Join(dir, d)
		if err := os.MkdirAll(d, 0o777); err != nil {
			return err
		}
		if err := os.Chmod(d, 0o777); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"conf": conf, "pmns": pmns} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if !c.Bare {
		if err := writeEtc(filepath.Join(dir, "etc")); err != nil {
			return err
		}
		if err := writeHelp(filepath.Join(dir, "pmdas")); err != nil {
			return err
		}
	}
	for name, text := range c.Files {
		name = filepath.Join(dir, name)
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) { // a link to PCP's own
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeEtc makes a PCP_SYSCONF_DIR: the installed one with our context labels.
func writeEtc(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "labels/optional"), 0o755); err != nil {
		return err
	}
	if err := linkAll(stockEtc, dir); err != nil {
		return err
	}
	for name, text := range contextLabels {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeHelp makes a PCP_PMDAS_DIR: the installed one with the help of the
// demonstration agents, which their Install scripts would compile.
func writeHelp(dir string) error {
	for name, domain := range map[string]int{
		"simple": DomainSimple, "sample": DomainSample, "trivial": DomainTrivial, "txmon": DomainTxmon,
	} {
		d := filepath.Join(dir, name)
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
		src := filepath.Join(pmdaDir, name)
		if err := linkAll(src, d); err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(src, "help"))
		if err != nil {
			return err
		}
		sym := []byte("@ " + strings.ToUpper(name) + ".")
		text = bytes.ReplaceAll(text, sym, fmt.Appendf(nil, "@ %d.", domain))
		cmd := exec.Command(newhelp, "-n", "root", "-o", "help")
		cmd.Dir, cmd.Stdin = d, bytes.NewReader(text)
		// Entries for metrics that are not in the name space are left out
		// with a complaint; the rest is good.
		out, err := cmd.CombinedOutput()
		if _, serr := os.Stat(filepath.Join(d, "help.dir")); serr != nil {
			return fmt.Errorf("newhelp for %s: %v\n%s", name, err, out)
		}
	}
	return linkAll(pmdaDir, dir)
}

// linkAll links each entry of src in dst, but those that dst has.
func linkAll(src, dst string) error {
	es, err := os.ReadDir(src)
	if err != nil {
		return err
	}
	for _, e := range es {
		err := os.Symlink(filepath.Join(src, e.Name()), filepath.Join(dst, e.Name()))
		if err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}
