package proc

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A predicate says which processes are hot, pmdaproc(1):
//
//	cpuburn > 0.2 && (uname == "root" || psargs ~ /pmda/)
//
// Patterns are those of package regexp.
//
// C differs: patterns are those of Emacs.
type predicate struct {
	text    string // the value of hotproc.control.config
	eval    func(v *vars) bool
	formats uint32 // a bit for each format that the variables need
}

// varFormats are the files of the variables that are not in stat.
var varFormats = map[string]uint32{
	"uid": 1 << formatStatus, "gid": 1 << formatStatus, "uname": 1 << formatStatus, "gname": 1 << formatStatus,
	"ctxswitch": 1 << formatStatus, "iodemand": 1 << formatIO, "schedwait": 1 << formatSchedstat, "psargs": needsArgs,
}

const (
	needsArgs  = 1 << numFormats
	hotFormats = 1<<formatStat | 1<<formatStatus | 1<<formatIO | 1<<formatSchedstat // of all metrics in hotproc.predicate
)

// vars are the variables of a predicate, for one process.
type vars struct {
	nums    [len(numVars)]float64 // a rate that is not known is 0
	unknown uint32                // a bit for each of nums: rates without counters of the scan before
	texts   [len(textVars)]string
}

var (
	numVars  = [...]string{"uid", "gid", "cpuburn", "ctxswitch", "virtualsize", "residentsize", "iodemand", "iowait", "schedwait"}
	textVars = [...]string{"uname", "gname", "fname", "psargs"}
)

// Indexes into vars.nums.
const (
	varUID = iota
	varGID
	varCPU
	varSwitches
	varVirtual
	varResident
	varIO
	varIOWait
	varSchedWait
)

// Indexes into vars.texts.
const (
	textUname = iota
	textGname
	textFname
	textPsargs
)

const (
	maxPredicate = 64 << 10 // bytes
	maxNested    = 100
)

var token = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[ \t\r\n]+|#[^\n]*)|^(&&|\|\||==|!=|<=|>=|!~|[<>~!()]|[A-Za-z]+|[0-9]+\.?[0-9]*|\.[0-9]+|"[^"\n]*"|/[^/\n]*/)`)
})

// parsePredicate returns nil for a text of blanks and comments only.
func parsePredicate(text string) (p *predicate, err error) {
	if len(text) > maxPredicate {
		return nil, fmt.Errorf("predicate longer than %d bytes", maxPredicate)
	}
	l := &parser{}
	for len(text) > 0 {
		m := token().FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("unexpected %.20q", text)
		}
		if m[1] != "" {
			l.words = append(l.words, m[1])
		}
		text = text[len(m[0]):]
	}
	if l.accept("Version") {
		if v := l.next(); v != "1" && v != "1.0" && v != "1." {
			return nil, fmt.Errorf("version %q is not 1.0", v)
		}
	} else if len(l.words) == 0 {
		return nil, nil
	}
	p = l.parseOr()
	if l.err == nil && len(l.words) > 0 {
		l.fail(l.words[0])
	}
	p.formats = l.formats | 1<<formatStat
	return p, l.err
}

// A parser holds the words that have not been parsed yet.
type parser struct {
	words   []string
	nested  int
	formats uint32 // of the variables so far
	err     error  // the first one
}

func (l *parser) fail(word string) {
	if l.err == nil {
		l.err = fmt.Errorf("unexpected %q", word)
	}
	l.words = nil
}

func (l *parser) next() string {
	if len(l.words) == 0 {
		return ""
	}
	w := l.words[0]
	l.words = l.words[1:]
	return w
}

func (l *parser) accept(word string) bool {
	if len(l.words) > 0 && l.words[0] == word {
		l.words = l.words[1:]
		return true
	}
	return false
}

func (l *parser) parseOr() *predicate {
	a := l.parseAnd()
	for l.accept("||") {
		x, y := a, l.parseAnd()
		a = &predicate{text: "(" + x.text + " || " + y.text + ")", eval: func(v *vars) bool { return x.eval(v) || y.eval(v) }}
	}
	return a
}

func (l *parser) parseAnd() *predicate {
	a := l.parseNot()
	for l.accept("&&") {
		x, y := a, l.parseNot()
		a = &predicate{text: "(" + x.text + " && " + y.text + ")", eval: func(v *vars) bool { return x.eval(v) && y.eval(v) }}
	}
	return a
}

func (l *parser) parseNot() *predicate {
	if l.nested++; l.nested > maxNested {
		l.fail("nesting")
	}
	defer func() { l.nested-- }()
	switch {
	case l.accept("!"):
		x := l.parseNot()
		return &predicate{text: "(! " + x.text + ")", eval: func(v *vars) bool { return !x.eval(v) }}
	case l.accept("("):
		x := l.parseOr()
		if !l.accept(")") {
			l.fail(l.next())
		}
		return x
	case l.accept("true"):
		return &predicate{text: "(true)", eval: func(*vars) bool { return true }}
	case l.accept("false"):
		return &predicate{text: "(false)", eval: func(*vars) bool { return false }}
	}
	return l.parseComparison()
}

// parseComparison parses a comparison of two numbers, of two texts, or of a text
// with a pattern.
func (l *parser) parseComparison() *predicate {
	nothing := &predicate{text: "", eval: func(*vars) bool { return false }}
	left, op, right := l.next(), l.next(), l.next()
	l.formats |= varFormats[left] | varFormats[right]
	show := func(l, r string) string { return "(" + l + " " + op + " " + r + ")" }
	if a, aText, ok := numberOperand(left); ok {
		b, bText, ok := numberOperand(right)
		compare := map[string]func(a, b float64) bool{
			"<": func(a, b float64) bool { return a < b }, "<=": func(a, b float64) bool { return a <= b },
			">": func(a, b float64) bool { return a > b }, ">=": func(a, b float64) bool { return a >= b },
			"==": func(a, b float64) bool { return a == b }, "!=": func(a, b float64) bool { return a != b },
		}[op]
		if ok && compare != nil {
			return &predicate{text: show(aText, bText), eval: func(v *vars) bool { return compare(a(v), b(v)) }}
		}
	} else if a, ok := textOperand(left); ok {
		if op == "~" || op == "!~" {
			if pattern, isPattern := strings.CutPrefix(right, "/"); isPattern {
				pattern = strings.TrimSuffix(pattern, "/")
				re, err := regexp.Compile(pattern)
				if err != nil {
					l.fail(right)
					return nothing
				}
				return &predicate{text: show(left, `"`+pattern+`"`), eval: func(v *vars) bool { return re.MatchString(a(v)) == (op == "~") }}
			}
		} else if b, ok := textOperand(right); ok && (op == "==" || op == "!=") {
			return &predicate{text: show(left, right), eval: func(v *vars) bool { return (a(v) == b(v)) == (op == "==") }}
		}
	}
	l.fail(strings.TrimSpace(left + " " + op + " " + right))
	return nothing
}

// numberOperand parses a number or the name of a numeric variable. text is its
// canonical form.
func numberOperand(word string) (f func(v *vars) float64, text string, ok bool) {
	if i := slices.Index(numVars[:], word); i >= 0 {
		return func(v *vars) float64 { return v.nums[i] }, word, true
	}
	n, err := strconv.ParseFloat(word, 64)
	if err != nil || word == "" || word[0] > '9' {
		return nil, "", false
	}
	if n == float64(int32(n)) {
		return func(*vars) float64 { return n }, strconv.Itoa(int(n)), true
	}
	return func(*vars) float64 { return n }, strconv.FormatFloat(n, 'f', 6, 64), true
}

// textOperand parses a text in quotes or the name of a text variable.
func textOperand(word string) (f func(v *vars) string, ok bool) {
	if i := slices.Index(textVars[:], word); i >= 0 {
		return func(v *vars) string { return v.texts[i] }, true
	}
	if s, isText := strings.CutPrefix(word, `"`); isText {
		s = strings.TrimSuffix(s, `"`)
		return func(*vars) string { return s }, true
	}
	return nil, false
}
