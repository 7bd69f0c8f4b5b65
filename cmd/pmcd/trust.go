package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gopcp/pmcd/agents/launch/goplugin"
	"github.com/gopcp/pmcd/agents/launch/roothelper"
	"github.com/gopcp/pmcd/pmcdconf"
)

// trustVar is the variable that has every agent started with root's rights, as C
// pmcd does.
const trustVar = "PMCD_TRUST_AGENTS"

// trustFiles are where administrators set the variables of pmcd: PCP's script
// exports those of $PCP_SYSCONFIG_DIR/pmcd, a unit those of its EnvironmentFile.
func trustFiles(getenv func(string) string) []string {
	if dir := getenv("PCP_SYSCONFIG_DIR"); dir != "" {
		return []string{filepath.Join(dir, "pmcd")}
	}
	return []string{"/etc/default/pmcd", "/etc/sysconfig/pmcd"}
}

// trustAgents reports whether PMCD_TRUST_AGENTS is 1 in one of the files, which
// only root can write to. The variable itself does not count: where the
// environment comes from cannot be told. problem is why what there is does not
// count, if anybody seems to have meant it.
func trustAgents(files []string, getenv func(string) string) (trust bool, problem error) {
	for _, path := range files {
		untrusted := roothelper.CheckFile(path) // first: what is root's then stays so
		value, err := variable(path, trustVar)
		switch {
		case err != nil || value != "1":
			continue
		case untrusted != nil:
			return false, fmt.Errorf("%s=1 in %s does not count: %w", trustVar, path, untrusted)
		}
		return true, nil
	}
	if getenv(trustVar) == "1" {
		return false, fmt.Errorf("%s=1 in the environment does not count: set it in %s", trustVar, files[0])
	}
	return false, nil
}

// variable returns what a file of variables sets one to, "" if it does not.
func variable(path, name string) (value string, err error) {
	fi, err := os.Stat(path) // a FIFO would be waited for
	if err != nil || !fi.Mode().IsRegular() {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(lines.Text()), "export "))
		if v, ok := strings.CutPrefix(line, name+"="); ok {
			v, _, _ = strings.Cut(v, "#")
			v = strings.TrimSpace(v)
			if n := len(v); n > 1 && (v[0] == '"' || v[0] == '\'') && v[n-1] == v[0] {
				v = v[1 : n-1]
			}
			value = v
		}
	}
	return value, lines.Err()
}

// A trustCheck says with whose rights the agents of a configuration run.
type trustCheck struct {
	config string    // pmcd.conf; "" is what is compiled in
	user   string    // of those who do not have root's
	file   string    // where PMCD_TRUST_AGENTS counts
	id     *identity // of user, if anything is started as that

	problem error // why PMCD_TRUST_AGENTS does not count, if it is set
}

// newTrustCheck returns the check of a pmcd that is started now with these
// options; nil if all its agents have the same rights: it is not root, or stays
// root, or trusts them all.
func newTrustCheck(opt *options, getenv func(string) string) *trustCheck {
	id, err := opt.runAs(os.Geteuid(), getenv)
	if err != nil || id == nil || id.uid == 0 || opt.foreground && !opt.managed {
		return nil
	}
	files := trustFiles(getenv)
	trust, problem := trustAgents(files, getenv)
	if trust {
		return nil
	}
	c := &trustCheck{config: opt.config, user: id.name, file: files[0], id: id, problem: problem}
	if opt.embedded {
		c.config = ""
	}
	return c
}

// untrusted returns why an agent does not get root's rights; nil if it does, or
// would not use them.
func (c *trustCheck) untrusted(a *pmcdconf.Agent, builtin builtinAgents) (u *roothelper.Untrusted) {
	if c == nil {
		return nil
	}
	errors.As(roothelper.CheckConfig(c.config), &u)
	if u != nil {
		return u
	}
	if a.Kind == pmcdconf.DSO {
		_, err := os.Stat(a.Path)
		if _, ok := builtin[a.Entry]; ok && errors.Is(err, fs.ErrNotExist) || a.Entry == pmcdconf.PMCDEntry || goplugin.Check(a.Path) == nil {
			return nil
		}
	}
	errors.As(roothelper.CheckAgent(a), &u)
	return u
}

// credential is for a process that is started as the user.
func (c *trustCheck) credential() *syscall.Credential {
	cred := &syscall.Credential{Uid: uint32(c.id.uid), Gid: uint32(c.id.gid)}
	for _, g := range c.id.groups {
		cred.Groups = append(cred.Groups, uint32(g))
	}
	return cred
}

// runsAs says that an agent, or all, runs without root's rights because of why.
func (c *trustCheck) runsAs(why error) string { return fmt.Sprintf("runs as %s: %v", c.user, why) }

// remedy says what to do about that.
func (c *trustCheck) remedy(u *roothelper.Untrusted) string {
	return fmt.Sprintf("to run it as root: %s; or set %s=1 in %s", u.Remedy(), trustVar, cmp.Or(c.file, "a file of root's"))
}
