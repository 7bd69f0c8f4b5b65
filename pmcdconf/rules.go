package pmcdconf

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gopcp/pmcd/access"
)

// section reads the access section. Its first token may have more of "[access]"
// than the bracket, because outside of the section brackets are not delimiters.
func (p *parser) section(t token) bool {
	p.s.access = true
	switch rest := strings.ToLower(t.text[1:]); rest {
	case "access]":
		return p.statements()
	case "":
		if p.advance(); !p.tok.is("access") {
			return p.reject(p.s.errf(p.tok, `"access" keyword expected`))
		}
	case "access":
	default:
		return p.reject(p.s.errf(t, `"access" keyword expected`))
	}
	if p.advance(); p.tok.text != "]" {
		return p.reject(p.s.errf(p.tok, `']' expected`))
	}
	return p.statements()
}

// accessFile reads an access file, which is an access section without "[access]".
func (p *parser) accessFile(name string, r io.Reader) bool {
	p.s = newScanner(name, "access config", r)
	p.s.access = true
	return p.statements()
}

// reject reports e, or the error of the scanner if that is the reason for e.
func (p *parser) reject(e *Error) bool {
	if p.broken != nil {
		return p.giveUp()
	}
	p.report(e)
	return false
}

// advance makes the next token the current one. After an error of the scanner it
// sets p.broken, and the current token is the end of the file.
func (p *parser) advance() {
	t, err := p.s.token()
	if err != nil && err != io.EOF && p.broken == nil {
		p.broken = p.s.broken(t, err)
	}
	if p.broken != nil {
		t.eof = true
	}
	p.tok = t
}

// statements reads to the end of the file. It reports whether its rules, together
// with those read before, are accepted.
func (p *parser) statements() bool {
	start, mistakes, first := len(p.problems), p.mistakes, len(p.rules)
	p.advance()
	for !p.tok.eof {
		mistake := p.statement()
		if mistake != nil {
			if p.broken == nil {
				p.report(mistake)
			}
			// As C pmcd does, continue after the next semicolon, or after a
			// quoted word that starts with one.
			for !p.tok.eof && !strings.HasPrefix(p.tok.text, ";") {
				p.advance()
			}
		}
		if !p.tok.eof {
			p.advance()
		}
	}
	// The look-ups of all hosts have been started; they run concurrently.
	p.asking.Wait()
	usable := false
	for _, s := range p.stated {
		if p.add(s) {
			usable = true
		}
	}
	p.stated = nil
	if p.broken != nil {
		// C pmcd differs: it accepts a file with a scanError between statements, as
		// if the file ended there.
		return p.giveUp()
	}
	if !usable && p.mistakes == mistakes {
		p.report(p.s.errf(p.tok, "no valid statements in [access] section"))
	}
	list, err := access.New(p.rules, p.env())
	var clashes access.Clashes
	if errors.As(err, &clashes) {
		p.clash(clashes, first)
	}
	p.problems[start:].sort()
	if p.mistakes > mistakes {
		return false
	}
	p.list = list
	return true
}

// A rulePos is the position of a rule in a file.
type rulePos struct {
	*Error        // a mistake at the position, without Err
	name   string // as written in the file
}

// clash reports rules that contradict earlier ones, once for each name. The rules before
// first belong to another section, with which their clashes were reported. It is a mistake if
// all rules of a name do. Otherwise the others are used, as in C pmcd: "*" stands for three.
func (p *parser) clash(clashes access.Clashes, first int) {
	rules := make(map[*Error]int) // of each name, less those that contradict others
	for _, at := range p.at[first:] {
		rules[at.Error]++
	}
	for _, c := range clashes {
		rules[p.at[c.Index].Error]--
	}
	var last *Error
	for _, c := range clashes {
		at := p.at[c.Index]
		if c.Index < first || at.Error == last {
			continue
		}
		last = at.Error
		e := *at.Error
		err := fmt.Errorf("%w at %v", c, p.at[c.With].Pos)
		if e.Warning = rules[at.Error] > 0; e.Warning {
			err, e.section = fmt.Errorf("%w, which stays in force", err), "" // pmcd gives no line
		}
		e.Err = &ruleError{c.Rule.Kind, at.name, err}
		p.report(&e)
	}
}

// stated is one name of a statement. Only the operations and the limit of ops are
// set.
type stated struct {
	kind access.Kind
	at   rulePos
	ops  access.Rule
}

// add resolves a name and adds the rules for it.
func (p *parser) add(s stated) bool {
	kind, at, ops := s.kind, s.at, s.ops
	rules := []access.Rule{{Name: at.name}}
	var note string
	var err error
	switch {
	case kind == access.Host:
		rules, note, err = p.hostRules(at.name)
	case at.name == access.Wildcard:
	case kind == access.User:
		rules[0].ID, rules[0].Groups, err = p.res.User(at.name)
		for _, gid := range rules[0].Groups {
			rules[0].GroupNames = append(rules[0].GroupNames, p.res.GroupName(gid))
		}
	default:
		rules[0].ID, err = p.res.Group(at.name)
	}
	if note != "" {
		e := *at.Error
		e.Warning, e.Err, e.section = true, errors.New(note), "" // pmcd gives no line
		p.report(&e)
	}
	if err != nil {
		e := *at.Error
		e.Err = &ruleError{kind, at.name, err}
		// A host may get an address later. An unknown user is a mistake.
		if e.Warning = errors.As(err, new(*unresolved)); e.Warning {
			p.leftOut.add(&e)
		}
		p.report(&e)
		return false
	}
	for _, r := range rules {
		r.Kind = kind
		r.Specified, r.Denied, r.Max = ops.Specified, ops.Denied, ops.Max
		p.rules = append(p.rules, r)
		p.at = append(p.at, at)
	}
	return true
}

// A ruleError is an error about a name in the access section.
type ruleError struct {
	kind access.Kind
	name string
	err  error
}

func (e *ruleError) Error() string {
	return fmt.Sprintf("access control error for %v '%s': %v", e.kind, e.name, e.err)
}

func (e *ruleError) Unwrap() error { return e.err }
