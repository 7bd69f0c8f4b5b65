package cifs

import (
	"bytes"
	"errors"
	"slices"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda/cache"
)

// A record has the values of a kind or of an instance, by item, as words; "" if there is none.
type record []string

func newRecord(k int) record { return make(record, len(kinds[k].fields)) }

// set sets r to the values of a line if it has this format.
func (r record) set(f *format, words [][]byte) {
	if len(words) < len(f.words) {
		return
	}
	for i, w := range f.words {
		if w.literal != "" && w.literal != string(words[i]) {
			return
		}
	}
	for i, w := range f.words {
		if w.item >= 0 {
			r[w.item] = string(words[i])
		}
	}
}

// number returns the number at the start of a word, such as 1460,1,1.
func number(word string) (n uint64, ok bool) {
	end := 0
	for end < len(word) && (word[end] >= '0' && word[end] <= '9' || end == 0 && word[0] == '-') {
		end++
	}
	return sysfile.Int([]byte(word[:end]))
}

// A parser parses the lines of both files.
type parser struct {
	ended     func() error
	instances [numKinds]*cache.Cache // with a record each
	current   [numKinds]record       // of the lines that follow; nil if these are of no instance
	found     [numKinds]int          // number of instances
	debug     bool                   // the lines are of DebugData
}

const (
	// maxInstances is the largest number of instances of a kind, and of those that are gone
	// and keep their ids and records. The memory for one is at most two kilobytes.
	maxInstances = 10_000

	maxWords = 20 // of a line
)

var errTooMany = errors.New("more than 10,000 shares, servers or sessions: their metrics have no values until fewer shares are mounted")

// begin prepares p for the first line. ended is called for each instance.
func (p *parser) begin(ended func() error) {
	p.ended, p.debug = ended, false
	p.current = [numKinds]record{totals: newRecord(totals), debug: newRecord(debug)}
	p.found = [numKinds]int{}
	for _, c := range p.instances {
		if c == nil {
			continue
		}
		c.LimitInactive(maxInstances) // shares come and go
		c.HideAll()
	}
}

// line parses a line. Lines that it does not know are of other kernels.
func (p *parser) line(line []byte) error {
	if bytes.HasPrefix(line, []byte("\t\t")) { // an interface or another channel of the server
		return nil
	}
	var all [maxWords][]byte
	words := all[:0]
	for rest := line; len(words) < maxWords; {
		var word []byte
		if word, rest = sysfile.Field(rest); len(word) == 0 {
			break
		}
		words = append(words, word)
	}
	switch {
	case len(words) < 2:
	case isOrdinal(words[0]):
		return p.header(words, line[0] == '\t')
	default:
		p.values(words)
	}
	return nil
}

// values parses a line with values. A line that begins with a number has no first word.
func (p *parser) values(words [][]byte) {
	list := formats[string(words[0])]
	if list == nil {
		list = formats[""]
	}
	for i := range list {
		f := &list[i]
		if r := p.current[f.kind]; r != nil {
			r.set(f, words)
		}
	}
}

// header parses the first line of an instance, which begins with its number. A name ends at the
// first blank, as in pmdacifs. Of instances with the same name, the first counts.
func (p *parser) header(words [][]byte, indented bool) error {
	k, name := -1, ""
	ordinal, words := words[0], words[1:]
	isShare := bytes.HasPrefix(words[0], []byte(`\\`))
	mounts := slices.IndexFunc(words, func(word []byte) bool { return string(word) == "Mounts:" })
	switch first := string(words[0]); {
	case isShare && !p.debug:
		k, name = share, first
	case !p.debug:
	case isShare && mounts > 0:
		k, name, words = mounted, first, words[mounts:]
	case first == "IPC:" && mounts > 1:
		k, name, words = mounted, string(words[1]), words[mounts:]
	case first == "ConnectionId:" && len(words) > 3 && !indented:
		k, name = server, string(words[3])
	case first == "Address:" && len(words) > 1:
		k, name = session, string(words[1])+"::"+string(bytes.TrimRight(ordinal, ")"))
	}
	// What follows is not of an instance before, nor of one that is part of it.
	for i := max(k, share); i < numKinds; i++ {
		if i != debug {
			p.current[i] = nil
		}
	}
	if k < 0 {
		return nil
	}
	if err := p.ended(); err != nil {
		return err
	}
	c := p.instances[k]
	if e, err := c.LookupName(name); err == nil && e.State == cache.Active {
		return nil
	}
	if p.found[k]++; p.found[k] > maxInstances {
		return errTooMany
	}
	r := newRecord(k)
	if _, err := c.Add(name, r); err != nil {
		return nil // the name is not valid, or all ids are used
	}
	p.current[k] = r
	if k == share {
		r[0] = "1"
		if string(words[len(words)-1]) == "DISCONNECTED" {
			r[0] = "0"
		}
		return nil
	}
	p.values(words)
	return nil
}

// isOrdinal reports whether a word is like 1).
func isOrdinal(word []byte) bool {
	digits, ok := bytes.CutSuffix(word, []byte(")"))
	_, isNumber := sysfile.Uint(digits)
	return ok && isNumber
}
