package pmcdconf

import "github.com/gopcp/pmcd/access"

// statement reads up to the semicolon of
//
//	allow|disallow [hosts|users|groups] name, name ... : operations ;
//
// and adds its names to p.stated.
func (p *parser) statement() (mistake *Error) {
	allow := p.tok.is("allow")
	if !allow && !p.tok.is("disallow") {
		return p.s.errf(p.tok, "allow or disallow statement expected")
	}
	p.advance()
	kind := access.Host // the default, for older files
	for _, k := range []access.Kind{access.Host, access.User, access.Group} {
		if p.tok.is(k.String()) || p.tok.is(k.String()+"s") {
			kind = k
			p.advance()
			break
		}
	}
	names, mistake := p.nameList(kind)
	if mistake != nil {
		return mistake
	}
	ops, mistake := p.operations(allow)
	if mistake != nil {
		return mistake
	}
	for _, name := range names {
		at := rulePos{p.s.err(name, nil), name.text}
		at.line = p.tok.line.number // C pmcd reports the line of the semicolon
		p.stated = append(p.stated, stated{kind, at, ops})
		if kind == access.Host {
			p.ask(name.text)
		}
	}
	return nil
}

// nameList reads names up to the colon, and the colon. In the place of a name, a
// delimiter is a name.
func (p *parser) nameList(kind access.Kind) (names []token, mistake *Error) {
	if p.tok.eof || p.tok.text == ":" || p.tok.text == ";" {
		return nil, p.s.errf(p.tok, "no %vs in allow/disallow statement", kind)
	}
	for {
		name := p.tok
		names = append(names, name)
		switch p.advance(); {
		case p.tok.eof:
			return nil, p.s.errf(p.tok, `',' or ':' expected after "%s"`, name.text)
		case p.tok.text == ":":
			p.advance()
			return names, nil
		case p.tok.text != ",":
			return nil, p.s.errf(p.tok, `',' or ':' expected after "%s"`, name.text)
		}
		if p.advance(); p.tok.eof || p.tok.text == ":" || p.tok.text == ";" {
			return nil, p.s.errf(p.tok, "%v expected after ','", kind)
		}
	}
}

// operations reads up to the semicolon:
//
//	spec := item {"," item}
//	item := "fetch" | "store" | "all" ["except" item] | "maximum" N "connections"
//
// It returns a Rule with only the operations and the limit set.
func (p *parser) operations(allow bool) (access.Rule, *Error) {
	var o operations
	for comma := false; ; comma = true {
		mistake := p.operation(allow, &o, comma)
		if mistake != nil {
			return access.Rule{}, mistake
		}
		switch {
		case !p.tok.eof && p.tok.text == ";":
			return o.rule(allow), nil
		case p.tok.eof || p.tok.text != ",":
			return access.Rule{}, p.s.errf(p.tok, "',' or ';' expected in permission list")
		}
		p.advance()
	}
}

// operations are the operations and the limit of a statement.
type operations struct {
	named       access.Op // one by one
	all, except bool      // all except: those that are named
	max         int       // 0 is no limit
}

func (o *operations) rule(allow bool) access.Rule {
	r := access.Rule{Specified: o.named, Max: o.max}
	if o.all {
		r.Specified = access.All
	}
	switch {
	case allow && o.except:
		r.Denied = o.named
	case !allow && o.except:
		r.Denied = access.All &^ o.named
	case !allow:
		r.Denied = r.Specified
	}
	return r
}

// operation reads an item of a spec. After "all except" it reads another one, before which there
// is no comma.
func (p *parser) operation(allow bool, o *operations, comma bool) (mistake *Error) {
	t := p.tok
	switch {
	case (t.eof || t.text == ";") && comma:
		return p.s.errf(t, "misplaced (trailing) ',' in permission list")
	case t.eof || t.text == ";":
		return p.s.errf(t, "empty or incomplete permissions list")
	case t.is("all") && o.except && o.named == 0:
		return p.s.errf(t, `can't have "all" within an "all except"`)
	case t.is("all") && o.named != 0, (t.is("fetch") || t.is("store")) && o.all && !o.except:
		return p.s.errf(t, `can't have "all" mixed with specific permissions`)
	case t.is("all"):
		o.all = true
		if p.advance(); p.tok.is("except") {
			o.except = true
			p.advance()
			return p.operation(allow, o, false)
		}
		return nil
	case t.is("fetch"):
		o.named |= access.Fetch
	case t.is("store"):
		o.named |= access.Store
	case t.is("maximum"), t.is("unlimited"):
		return p.maximum(allow, o)
	default:
		return p.s.errf(t, "bad access specifier")
	}
	p.advance()
	return nil
}

// maximum reads the limit of connections.
func (p *parser) maximum(allow bool, o *operations) (mistake *Error) {
	t := p.tok
	switch {
	case !allow:
		return p.s.errf(t, "can't specify connection limit in a disallow statement")
	case o.max != 0:
		return p.s.errf(t, "connection limit already specified")
	case o.except && o.named == 0:
		return p.s.errf(t, `connection limit may not immediately follow "all except"`)
	case t.is("unlimited"):
		// pmcd(1) permits this, but C pmcd never accepts it.
		return p.s.errf(t, `"connections" expected`)
	}
	p.advance()
	n, ok := cInt(p.tok.text)
	if !ok || n <= 0 {
		return p.s.errf(p.tok, "maximum connection limit must be a positive number")
	}
	o.max = int(n)
	if p.advance(); !p.tok.is("connections") {
		return p.s.errf(p.tok, `"connections" expected`)
	}
	p.advance()
	return nil
}
