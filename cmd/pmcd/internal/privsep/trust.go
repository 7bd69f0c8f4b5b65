package privsep

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gopcp/pmcd/internal/launch/goplugin"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// trustVar is the variable with which every agent is started with root's rights, as
// by C pmcd.
const trustVar = "PMCD_TRUST_AGENTS"

// trustFiles returns the files in which admins set the variables of pmcd: PCP's
// script exports those in $PCP_SYSCONFIG_DIR/pmcd, a systemd unit those in its
// EnvironmentFile.
func trustFiles(getenv func(string) string) []string {
	if dir := getenv("PCP_SYSCONFIG_DIR"); dir != "" {
		return []string{filepath.Join(dir, "pmcd")}
	}
	return []string{"/etc/default/pmcd", "/etc/sysconfig/pmcd"}
}

// trustAgents reports whether PMCD_TRUST_AGENTS is 1 in one of the files, to which
// only root can write. The variable in the environment is ignored, because any user may
// have set it. problem says why a PMCD_TRUST_AGENTS=1 is ignored; nil if there is none.
func trustAgents(files []string, getenv func(string) string) (trust bool, problem error) {
	for _, path := range files {
		untrusted := roothelper.CheckFile(path) // before reading: a file of root stays a file of root
		value, err := variable(path, trustVar)
		switch {
		case err != nil || value != "1":
			continue
		case untrusted != nil:
			return false, fmt.Errorf("%s=1 in %s is ignored: %w", trustVar, path, untrusted)
		}
		return true, nil
	}
	if getenv(trustVar) == "1" {
		return false, fmt.Errorf("%s=1 in the environment is ignored: set it in %s", trustVar, files[0])
	}
	return false, nil
}

// maxEnvFile is the largest size of such a file, in bytes.
const maxEnvFile = 1 << 20

// variable returns the value of a variable in a file of NAME=VALUE lines, "" if it
// is not set.
func variable(path, name string) (value string, err error) {
	text, err := regular.ReadFile(path, maxEnvFile)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "export "))
		if v, ok := strings.CutPrefix(line, name+"="); ok {
			v, _, _ = strings.Cut(v, "#")
			v = strings.TrimSpace(v)
			if n := len(v); n > 1 && (v[0] == '"' || v[0] == '\'') && v[n-1] == v[0] {
				v = v[1 : n-1]
			}
			value = v
		}
	}
	return value, nil
}

// A TrustCheck finds out with which rights the agents of a configuration run.
type TrustCheck struct {
	config string    // pmcd.conf; "" is the embedded configuration
	user   string    // that agents without root's rights run as
	file   string    // where PMCD_TRUST_AGENTS can be set
	id     *Identity // of user, if processes are started as that user

	Problem error // why PMCD_TRUST_AGENTS=1 is ignored, if it is
}

// NewTrustCheck returns the check for a daemon that would be started now with this
// configuration file, "" for the embedded configuration, and the user of -U, or "". It
// is nil if all agents would have the same rights, because that daemon is not root,
// stays root, or trusts all agents.
func NewTrustCheck(config, user string, getenv func(string) string) *TrustCheck {
	id, err := RunAs(user, os.Geteuid(), getenv)
	if err != nil || id == nil || id.UID == 0 {
		return nil
	}
	files := trustFiles(getenv)
	trust, problem := trustAgents(files, getenv)
	if trust {
		return nil
	}
	return &TrustCheck{config: config, user: id.Name, file: files[0], id: id, Problem: problem}
}

// Untrusted returns why an agent does not get root's rights; nil if it gets them or
// does not need them. isBuiltin reports whether a built-in agent is used
// for it.
func (c *TrustCheck) Untrusted(a *pmcdconf.Agent, isBuiltin func(*pmcdconf.Agent) bool) (u *roothelper.Untrusted) {
	if c == nil {
		return nil
	}
	errors.As(roothelper.CheckConfig(c.config), &u)
	if u != nil {
		return u
	}
	if isBuiltin(a) || a.Kind == pmcdconf.DSO && (a.Entry == pmcdconf.PMCDEntry || goplugin.Check(a.Path) == nil) {
		return nil
	}
	errors.As(roothelper.CheckAgent(a), &u)
	return u
}

// Credential returns the credential of a process that is started as the user.
func (c *TrustCheck) Credential() *syscall.Credential {
	cred := &syscall.Credential{Uid: uint32(c.id.UID), Gid: uint32(c.id.GID)}
	for _, g := range c.id.Groups {
		cred.Groups = append(cred.Groups, uint32(g))
	}
	return cred
}

// RunsAs returns the text that an agent, or all agents, run without root's rights
// because of why.
func (c *TrustCheck) RunsAs(why error) string { return fmt.Sprintf("runs as %s: %v", c.user, why) }

// Remedy returns what an admin can do about it.
func (c *TrustCheck) Remedy(u *roothelper.Untrusted) string {
	return fmt.Sprintf("to run it as root: %s; or set %s=1 in %s", u.Remedy(), trustVar, cmp.Or(c.file, "a file that only root can write to"))
}
