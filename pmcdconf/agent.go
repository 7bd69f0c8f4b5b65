package pmcdconf

import (
	"strings"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/pdu"
)

// agent reads the rest of an agent line:
//
//	label domain dso    entry-point path
//	label domain socket inet|ipv6|unix address [command]
//	label domain pipe   binary [notready] command
//
// It returns a mistake and whether pmcd stops reading there.
func (p *parser) agent(name token) (a Agent, mistake *Error, stop bool) {
	a = Agent{Name: name.text, Pos: p.s.err(name, nil).Pos}
	t, _ := p.word()
	n, ok := cInt(t.text)
	switch {
	case !ok:
		return a, p.s.errf(t, `expected domain number for "%s" agent`, a.Name), false
	case n < 0 || n > pdu.MaxDomain:
		return a, p.s.errf(t, `Illegal domain number (%d) for "%s" agent`, n, a.Name), false
	}
	a.Domain = int(n)
	for _, b := range p.agents {
		if b.Domain == a.Domain {
			return a, p.s.errf(t, `domain number for "%s" agent clashes with "%s" agent`, a.Name, b.Name), false
		}
	}
	switch t, _ := p.word(); {
	case t.is("dso"):
		a.Kind = DSO
		return p.dso(a)
	case t.is("socket"):
		a.Kind = Socket
		a, mistake = p.socket(a)
	case t.is("pipe"):
		a.Kind = Pipe
		a, mistake = p.pipe(a)
	default:
		mistake = p.s.errf(t, "expected `dso', `socket' or `pipe'")
	}
	return a, mistake, false
}

// cInt returns the value of s if s consists of digits. It wraps around, as an int in
// C does.
func cInt(s string) (n int32, ok bool) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int32(c-'0')
	}
	return n, s != ""
}

func (p *parser) dso(a Agent) (Agent, *Error, bool) {
	t, ok := p.word()
	if !ok {
		return a, p.s.errf(t, "expected DSO entry point"), false
	}
	a.Entry = t.text
	if t, ok = p.word(); !ok {
		return a, p.s.errf(t, "expected DSO pathname"), false
	}
	// C pmcd differs: it does not know the word "builtin".
	if a.Path = t.text; a.Path == "builtin" {
		a.Path = ""
	} else if !strings.HasPrefix(a.Path, "/") {
		return a, p.s.errf(t, `path "%s" to PMDA is not absolute`, a.Path), true
	}
	if t, ok = p.word(); ok {
		return a, p.s.errf(t, "too many parameters for DSO"), false
	}
	return a, nil, false
}

func (p *parser) socket(a Agent) (Agent, *Error) {
	t, _ := p.word()
	switch {
	case t.is(access.Inet.String()):
		a.Family = access.Inet
	case t.is(access.IPv6.String()):
		a.Family = access.IPv6
	case t.is(access.Unix.String()):
		a.Family = access.Unix
	default:
		return a, p.s.errf(t, "expected socket address domain (`inet', `ipv6', or `unix')")
	}
	t, ok := p.word()
	if !ok {
		return a, p.s.errf(t, "expected socket port name or number")
	}
	a.Address = t.text
	if a.Family != access.Unix {
		if a.Port, ok = portNumber(a.Address); !ok {
			// C pmcd differs: it uses the number of a name with its bytes
			// swapped.
			var err error
			if a.Port, err = p.res.Port(a.Address); err != nil {
				return a, p.s.errf(t, "failed to get port number for port name %s", a.Address)
			}
		}
	}
	a.Argv = p.argv()
	return a, nil
}

// portNumber returns the value of s if s consists of digits. In place of a very large
// value, it returns another one that is too large for a port.
func portNumber(s string) (n int, ok bool) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int(c-'0'), 1<<20)
	}
	return n, s != ""
}

func (p *parser) pipe(a Agent) (Agent, *Error) {
	t, _ := p.word()
	if !t.is("binary") {
		return a, p.s.errf(t, "pipe PDU type expected (`binary')")
	}
	a.Argv = p.argv()
	for len(a.Argv) > 0 && strings.EqualFold(a.Argv[0], "notready") {
		a.NotReady = true
		a.Argv = a.Argv[1:]
	}
	if len(a.Argv) == 0 {
		return a, p.s.errf(token{line: p.s.cur, off: p.s.off}, "command to create pipe agent expected.")
	}
	return a, nil
}

// argv returns the rest of the line.
func (p *parser) argv() (args []string) {
	for {
		t, ok := p.word()
		if !ok {
			return args
		}
		args = append(args, t.text)
	}
}
