package rootchild

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gopcp/pmcd/pmcdconf"
)

// A line is an agent in pmcd.conf.
type line struct {
	agent   pmcdconf.Agent
	boot    bool // not started yet, and there from the beginning
	trusted bool // nobody but root could change the file when it was read
}

// line returns the agent of a domain, if its line has the digest and may be
// started, and its program if that has been searched for or is this one.
func (s *server) line(domain int, digest [32]byte) (a *pmcdconf.Agent, program string, err error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	l := s.lines[domain]
	if l.is(digest) && l.boot && time.Now().Before(s.boot) {
		l.boot = false
		if s.builtIn(&l.agent) {
			program = Self
		}
		return &l.agent, program, nil
	}
	if err := s.trustedFile(); err != nil {
		return nil, "", fmt.Errorf("not started by root: %w", err)
	}
	if !l.is(digest) || !l.trusted {
		lines, err := s.read(false)
		if err != nil {
			return nil, "", err
		}
		s.lines = lines
		if l = lines[domain]; !l.is(digest) {
			return nil, "", fmt.Errorf("%s has another line for this agent than when pmcd read it", cmp.Or(s.cfg.ConfigFile, "what is compiled in"))
		}
	}
	if s.builtIn(&l.agent) {
		return &l.agent, Self, nil
	}
	if program, err = trustedProgram(&l.agent, s.cfg.owner); err != nil {
		return nil, "", fmt.Errorf("not started by root: %w", err)
	}
	return &l.agent, program, nil
}

// builtIn reports whether an agent is part of this program. Who could put a file
// in its place would have that looked at.
func (s *server) builtIn(a *pmcdconf.Agent) bool {
	if a.Kind != pmcdconf.DSO || s.cfg.BuiltIn == nil || !s.cfg.BuiltIn(a.Entry) {
		return false
	}
	_, err := os.Stat(a.Path)
	return errors.Is(err, fs.ErrNotExist)
}

// trustedFile reports why others than root could change the lines.
func (s *server) trustedFile() error {
	if s.cfg.ConfigFile == "" {
		return nil
	}
	return trusted(s.cfg.ConfigFile, s.cfg.owner)
}

// is reports whether l is the line with the digest. There is none for nil.
func (l *line) is(d [32]byte) bool { return l != nil && digest(&l.agent) == d }

// read reads the agents in the configuration file. Who may connect is none of
// the root child's business: no names of hosts and users are looked up.
func (s *server) read(boot bool) (map[int]*line, error) {
	safe := s.trustedFile() == nil
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
	lines := make(map[int]*line, len(list))
	for _, a := range list {
		if a.Kind == pmcdconf.Socket && len(a.Argv) == 0 {
			continue // there is nothing to start
		}
		lines[a.Domain] = &line{agent: a, boot: boot, trusted: safe}
	}
	return lines, nil
}
