package roothelper

import (
	"cmp"
	"fmt"

	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// lookup returns the agent of a domain if its line has the digest. If it does not,
// lookup reads the configuration file again. program is as for Config.Start. The
// error is an *Untrusted if a user other than root can change what would be
// executed.
func (s *server) lookup(domain int, digest [32]byte) (a *pmcdconf.Agent, program string, err error) {
	if a, err = s.line(domain, digest); err != nil {
		return nil, "", err
	}
	// The file system of this agent may not answer, so configMu is not held: other agents
	// are started meanwhile.
	switch {
	case s.cfg.BuiltIn != nil && s.cfg.BuiltIn(a):
		return a, Self, nil
	case s.cfg.TrustAll:
		return a, "", nil
	}
	if program, err = checkProgram(a, s.cfg.owner); err != nil {
		return nil, "", err
	}
	return a, program, nil
}

// line returns the line of a domain if it has the digest.
func (s *server) line(domain int, digest [32]byte) (*pmcdconf.Agent, error) {
	s.configMu.Lock()
	defer s.configMu.Unlock()
	// Lines that were read earlier come from a file that only root could change.
	// That must be true of the file as it is now, too.
	if !s.cfg.TrustAll {
		if err := checkConfig(s.cfg.ConfigFile, s.cfg.owner); err != nil {
			return nil, err
		}
	}
	if a := s.agents[domain]; hasDigest(a, digest) {
		return a, nil
	}
	lines, err := s.readConfig()
	if err != nil {
		return nil, err
	}
	s.agents = lines
	if a := lines[domain]; hasDigest(a, digest) {
		return a, nil
	}
	return nil, fmt.Errorf("the line of this agent in %s has changed since pmcd read it: send pmcd SIGHUP", cmp.Or(s.cfg.ConfigFile, "the embedded configuration"))
}

// hasDigest reports whether a, which may be nil, has the digest d.
func hasDigest(a *pmcdconf.Agent, d [32]byte) bool { return a != nil && digest(a) == d }

// readConfig reads the agents in the configuration file, by domain. The root helper
// does not need the access rules, so it does not look up the hosts and users in
// them.
func (s *server) readConfig() (map[int]*pmcdconf.Agent, error) {
	list := s.cfg.Embedded
	if s.cfg.ConfigFile != "" {
		f, err := regular.Open(s.cfg.ConfigFile)
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
			continue // pmcd does not start it
		}
		lines[a.Domain] = &a
	}
	return lines, nil
}
