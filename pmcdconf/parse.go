package pmcdconf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// Options select how names in a configuration are resolved and what is read. With
// the zero Options, the system resolves names and everything is read.
type Options struct {
	Hostname string   // of this host; "" is os.Hostname
	Resolver Resolver // nil is the system's
	// OwnNameLater does not wait for a name server that knows the addresses of this host's own
	// name: see Config.Complete.
	OwnNameLater bool
	// CredsRequired makes credentials mandatory in the access list, even if
	// there is no rule for users or groups (pmcd -S).
	CredsRequired bool
	// AgentsOnly leaves out the access section.
	AgentsOnly bool
	// All continues after mistakes at which pmcd stops reading, and reports those
	// in the lines after it, in the access section and in the access file. It
	// accepts the same configurations.
	All bool
}

// NoAgents returns the error of a pmcd whose configuration in path has no agents. It does
// not start.
func NoAgents(path string) error {
	//lint:ignore ST1005 PCP's text
	return fmt.Errorf("No PMDAs found in the configuration file %q", path)
}

// Parse reads a configuration without its access file. Messages call the file
// name. Parse has no context, because it takes only the time of r and at most a few
// seconds for the names of hosts. An error means that the configuration is rejected. It
// is of type ErrorList, and the Config is not nil: see Problems and Rejected. A
// configuration without agents is not an error: see NoAgents.
func Parse(name string, r io.Reader, opt Options) (*Config, error) {
	p := newParser(opt)
	return p.run(func() bool { return p.main(name, r) })
}

// ParseFile reads the configuration in path and the access rules in path.access,
// if that file exists. An error means that the configuration is rejected, as in
// Parse, or that a file cannot be opened. In the second case the Config is nil.
//
// If ctx ends first, the Config is nil and the error is that of ctx. The reading
// then goes on alone until it ends: a network file system or a name server can take any
// time, and neither can be interrupted.
func ParseFile(ctx context.Context, path string, opt Options) (*Config, error) {
	type result struct {
		conf *Config
		err  error
	}
	read := make(chan result, 1)
	go func() {
		conf, err := parseFile(path, opt)
		read <- result{conf, err}
	}()
	select {
	case r := <-read:
		return r.conf, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func parseFile(path string, opt Options) (*Config, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// The file is not optional if it exists: its rules may deny something.
	acc, err := regular.Open(path + ".access")
	if err == nil {
		defer acc.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	p := newParser(opt)
	return p.run(func() bool {
		ok := p.main(path, f)
		if acc != nil && (ok || opt.All && p.broken == nil) {
			ok = p.accessFile(acc.Name(), acc) && ok
		}
		return ok
	})
}

// A parser collects the content of the files.
type parser struct {
	opt      Options
	res      Resolver
	s        *scanner
	tok      token  // the current one, in the access section
	broken   *Error // the scanner cannot go on
	agents   []Agent
	rules    []access.Rule
	at       []rulePos // of the rules
	list     *access.List
	problems ErrorList
	leftOut  ErrorList          // of problems: rules whose host cannot be looked up
	mistakes int                // all mistakes, also those that do not fit in problems
	stated   []stated           // not yet added to the rules
	lookups  map[string]*lookup // of hosts
	asking   sync.WaitGroup     // lookups that are under way
	self     *lookup            // of this host, when it has been needed
	later    string             // this host's own name, if its addresses are looked up later; else ""
}

func newParser(opt Options) *parser {
	p := &parser{opt: opt, res: opt.Resolver, lookups: make(map[string]*lookup)}
	if p.res == nil {
		p.res = system{maxResolve}
	}
	p.list = p.empty()
	return p
}

// empty returns a list of no rules.
func (p *parser) empty() *access.List {
	l, err := access.New(nil, access.Env{CredsRequired: p.opt.CredsRequired})
	if err != nil {
		panic(err) // without rules there is no clash
	}
	return l
}

// run calls read, which reports whether the configuration is accepted, and returns
// the configuration.
func (p *parser) run(read func() bool) (conf *Config, err error) {
	// A bug must not end a daemon that reloads its configuration.
	defer func() {
		if v := recover(); v != nil {
			p.report(p.s.errf(token{line: p.s.cur, off: p.s.off}, "internal error: %v\n%s", v, debug.Stack()))
			conf, err = p.rejected()
		}
	}()
	if !read() {
		return p.rejected()
	}
	conf = &Config{Agents: p.agents, Access: p.list, LeftOut: p.leftOut, Problems: p.problems}
	if p.later != "" {
		conf.Complete = p.complete
	}
	return conf, nil
}

func (p *parser) rejected() (*Config, error) {
	return &Config{Rejected: p.agents, Access: p.empty(), Problems: p.problems}, p.problems
}

// main reads pmcd.conf and reports whether it is accepted.
//
// As in C pmcd, the last agent line decides. If it is good, mistakes in the lines
// before it do not matter. If it is wrong, the access section is not read.
func (p *parser) main(name string, r io.Reader) bool {
	p.s = newScanner(name, "pmcd config", r)
	ok, stopped := true, false
	for {
		if err := p.s.next(); err == io.EOF {
			return ok && !stopped
		} else if err != nil {
			p.broken = p.s.broken(token{line: p.s.cur}, err)
			return p.giveUp()
		}
		t, found := p.word()
		switch {
		case p.broken != nil:
			return p.giveUp()
		case !found:
		case strings.HasPrefix(t.text, "["):
			ok = ok && !stopped
			if ok && p.opt.AgentsOnly {
				return true
			}
			return (ok || p.opt.All) && p.section(t) && ok
		default:
			a, err, stop := p.agent(t)
			if p.broken != nil {
				return p.giveUp()
			}
			if ok = err == nil; ok {
				p.agents = append(p.agents, a)
				continue
			}
			p.report(err)
			if stop && !p.opt.All {
				return false
			}
			stopped = stopped || stop
			// Skip the rest of the line, but report a scanError in it.
			for found {
				_, found = p.word()
			}
			if p.broken != nil {
				return p.giveUp()
			}
		}
	}
}

// report adds a problem.
func (p *parser) report(e *Error) {
	p.problems.add(e)
	if !e.Warning {
		p.mistakes++
	}
}

// giveUp reports that the scanner is broken.
func (p *parser) giveUp() bool {
	p.report(p.broken)
	p.report(&Error{
		Pos: Pos{File: p.s.file},
		//lint:ignore ST1005 PCP's text
		Err:     errors.New("Can't continue, giving up"),
		section: p.s.section,
		summary: true,
	})
	return false
}

// word returns the next token of the line and whether there is one. It may
// set p.broken.
func (p *parser) word() (t token, ok bool) {
	t, err := p.s.token()
	if err != nil && err != io.EOF {
		p.broken = p.s.broken(t, err)
	}
	return t, err == nil
}
