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
func (p *parser) operations(allow bool) (r access.Rule, mistake *Error) {
	var named access.Op
	var all, except, comma bool
	for {
		t := p.tok
		switch {
		case (t.eof || t.text == ";") && comma:
			return r, p.s.errf(t, "misplaced (trailing) ',' in permission list")
		case t.eof || t.text == ";":
			return r, p.s.errf(t, "empty or incomplete permissions list")
		case t.is("all"):
			if except && named == 0 {
				return r, p.s.errf(t, `can't have "all" within an "all except"`)
			}
			if named != 0 {
				return r, p.s.errf(t, `can't have "all" mixed with specific permissions`)
			}
			all = true
			if p.advance(); p.tok.is("except") {
				except, comma = true, false
				p.advance()
				continue
			}
		case t.is("fetch"), t.is("store"):
			if all && !except {
				return r, p.s.errf(t, `can't have "all" mixed with specific permissions`)
			}
			if t.is("fetch") {
				named |= access.Fetch
			} else {
				named |= access.Store
			}
			p.advance()
		case t.is("maximum"), t.is("unlimited"):
			switch {
			case !allow:
				return r, p.s.errf(t, "can't specify connection limit in a disallow statement")
			case r.Max != 0:
				return r, p.s.errf(t, "connection limit already specified")
			case except && named == 0:
				return r, p.s.errf(t, `connection limit may not immediately follow "all except"`)
			case t.is("unlimited"):
				// pmcd(1) permits this, but C pmcd never accepts it.
				return r, p.s.errf(t, `"connections" expected`)
			}
			p.advance()
			n, ok := cInt(p.tok.text)
			if !ok || n <= 0 {
				return r, p.s.errf(p.tok, "maximum connection limit must be a positive number")
			}
			r.Max = int(n)
			if p.advance(); !p.tok.is("connections") {
				return r, p.s.errf(p.tok, `"connections" expected`)
			}
			p.advance()
		default:
			return r, p.s.errf(t, "bad access specifier")
		}
		switch {
		case !p.tok.eof && p.tok.text == ";":
			r.Specified = named
			if all {
				r.Specified = access.All
			}
			switch {
			case allow && except:
				r.Denied = named
			case !allow && except:
				r.Denied = access.All &^ named
			case !allow:
				r.Denied = r.Specified
			}
			return r, nil
		case !p.tok.eof && p.tok.text == ",":
			comma = true
			p.advance()
		default:
			return r, p.s.errf(p.tok, "',' or ';' expected in permission list")
		}
	}
}
