package roothelper

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/gopcp/pmcd/pmcdconf"
)

// lookup returns the agent of a domain, if its lookup has the digest, and its program
// if that has been searched for or is this one. The error is an *Untrusted if
// others than root decide on what would be executed.
func (s *server) lookup(domain int, digest [32]byte) (a *pmcdconf.Agent, program string, err error) {
	s.configMu.Lock()
	defer s.configMu.Unlock()
	// What was read when the file was root's still is; what it has now may not be.
	if err := s.checkConfigFile(); err != nil {
		return nil, "", err
	}
	a = s.agents[domain]
	if !hasDigest(a, digest) {
		lines, err := s.readConfig()
		if err != nil {
			return nil, "", err
		}
		s.agents = lines
		if a = lines[domain]; !hasDigest(a, digest) {
			return nil, "", fmt.Errorf("%s has another line for this agent than when pmcd read it", cmp.Or(s.cfg.ConfigFile, "what is compiled in"))
		}
	}
	switch {
	case s.isBuiltIn(a):
		return a, Self, nil
	case s.cfg.TrustAll:
		return a, "", nil
	}
	if program, err = checkProgram(a, s.cfg.owner); err != nil {
		return nil, "", err
	}
	return a, program, nil
}

// isBuiltIn reports whether an agent is part of this program. Who could put a file
// in its place would have that looked at.
func (s *server) isBuiltIn(a *pmcdconf.Agent) bool {
	if a.Kind != pmcdconf.DSO || s.cfg.BuiltIn == nil || !s.cfg.BuiltIn(a.Entry) {
		return false
	}
	_, err := os.Stat(a.Path)
	return errors.Is(err, fs.ErrNotExist)
}

// checkConfigFile reports why others than root could change the lines.
func (s *server) checkConfigFile() error {
	if s.cfg.TrustAll {
		return nil
	}
	return checkConfig(s.cfg.ConfigFile, s.cfg.owner)
}

// hasDigest reports whether a, which may be nil, has the digest.
func hasDigest(a *pmcdconf.Agent, d [32]byte) bool { return a != nil && digest(a) == d }

// readConfig reads the agents in the configuration file, which is root's. Who may
// connect is none of the root helper's business: no names of hosts and users are
// looked up.
func (s *server) readConfig() (map[int]*pmcdconf.Agent, error) {
	list := s.cfg.Embedded
	if s.cfg.ConfigFile != "" {
		f, err := os.Open(s.cfg.ConfigFile)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		conf, err := pmcdconf.Parse(s.cfg.ConfigFile, f, pmcdconf.Options{AgentsOnly: true})
		if err != nil {
			return nil, err
		}
		list = conf.Agents
	}
	lines := make(map[int]*pmcdconf.Agent, len(list))
	for _, a := range list {
		if a.Kind == pmcdconf.Socket && len(a.Argv) == 0 {
			continue // there is nothing to start
		}
		lines[a.Domain] = &a
	}
	return lines, nil
}
