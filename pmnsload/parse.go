package pmnsload

import (
	"bytes"
	"errors"
	"io"
	"math"
	"runtime"
	"strconv"

	"github.com/gopcp/pmcd/pdu"
)

// A parser reads a name space into blocks.
type parser struct {
	src   lineSource
	spent *budget

	file string // with line the position of the line being read, after the last marker
	line int

	files  []string // files with names and blocks
	fileNo int32    // index of the last one used
	index  map[string]int32

	state  state
	text   []byte // paths of blocks and names of entries
	blocks []block
	// entries holds the names of all blocks, each block's together.
	entries []entry
}

// A state is the kind of word that a parser expects.
type state int

const (
	wantPath   state = iota // the path of a block
	wantBrace               // {
	wantName                // a name or }
	wantNodeID              // the PMID of a name, another name or }
)

// A block is a path with the names one level below it.
type block struct {
	path         span
	first, count int32 // entries
	at           filePos
	used         bool
}

// An entry is a name in a block.
type entry struct {
	name span
	id   pdu.PMID // NoPMID for a non-leaf
	at   filePos
}

// A span is a piece of a parser's text.
type span struct{ off, len uint32 }

// A filePos is a Pos with the index of the file instead of its name.
type filePos struct{ file, line, col int32 }

// Bytes of memory for an entry and a block, without their names.
const (
	entryCost = 64 // the entry and its later node
	blockCost = 96
)

// sliceEvery is the number of lines, or names, after which the goroutine yields: a
// reload is a long computation and must not delay requests.
const sliceEvery = 2048

// parse reads all lines. Its error has a position only if it is an *Error.
func (p *parser) parse() error {
	p.index = map[string]int32{}
	for n := 1; ; n++ {
		if n%sliceEvery == 0 {
			runtime.Gosched()
		}
		line, err := p.src.next()
		if err == io.EOF {
			// As with C pmcd, the end of the file closes an open block.
			return nil
		}
		p.line++
		if err != nil {
			return err
		}
		if err := p.words(line); err != nil {
			return err
		}
	}
}

// reserve allocates memory for the content of a usual file of n bytes, because growing
// slices would take longer than parsing. The sizes are estimates with a limit.
func (p *parser) reserve(n int64) {
	n = min(n, 16<<20)
	p.text = make([]byte, 0, n) // pages that are not used take no memory
	p.entries = make([]entry, 0, n/16)
	p.blocks = make([]block, 0, n/256)
}

// words reads a line.
func (p *parser) words(line []byte) error {
	line = joinColons(line)
	i := skip(line, 0, true)
	if i < len(line) && line[i] == '#' {
		return p.marker(line)
	}
	for i < len(line) {
		start := i
		i = skip(line, i, false)
		if err := p.word(line[start:i], start); err != nil {
			return p.errorAt(line, start, err)
		}
		i = skip(line, i, true)
	}
	return nil
}

// skip returns the first index from i on where line is not blank, or is.
func skip(line []byte, i int, blank bool) int {
	for i < len(line) && isBlank(line[i]) == blank {
		i++
	}
	return i
}

// marker reads a line # N "file": the next line is line N of file. It ignores text
// after that.
func (p *parser) marker(line []byte) error {
	number := bytes.TrimLeft(bytes.TrimLeft(line, blanks)[1:], blanks)
	n := 0
	for n < len(number) && isDigit(number[n]) {
		n++
	}
	name := bytes.TrimLeft(number[n:], blanks)
	at, err := strconv.ParseInt(string(number[:n]), 10, 32)
	if err != nil || !bytes.HasPrefix(name, []byte{'"'}) {
		return p.errorAt(line, 0, ErrControl)
	}
	name = name[1:]
	if end := bytes.LastIndexByte(name, '"'); end >= 0 {
		name = name[:end]
	}
	p.line = int(at) - 1
	if p.file != string(name) {
		p.file = string(name)
	}
	return nil
}

// joinColons removes blanks around colons, which a PMID may contain.
func joinColons(line []byte) []byte {
	near := func(i int) bool { return i >= 0 && i < len(line) && isBlank(line[i]) }
	i := bytes.IndexByte(line, ':')
	for i >= 0 && i < len(line) && (line[i] != ':' || !near(i-1) && !near(i+1)) {
		i++
	}
	if i < 0 || i == len(line) {
		return line
	}
	var out []byte
	for i, part := range bytes.Split(line, []byte{':'}) {
		if i > 0 {
			out = append(bytes.TrimRight(out, blanks), ':')
			part = bytes.TrimLeft(part, blanks)
		}
		out = append(out, part...)
	}
	return out
}

// word reads a word that begins at column col, from 0.
func (p *parser) word(w []byte, col int) error {
	switch p.state {
	case wantPath:
		if !isPath(w) {
			return ErrPath
		}
		path, err := p.keep(w, blockCost)
		p.blocks = append(p.blocks, block{path: path, first: int32(len(p.entries)), at: p.here(col)})
		p.state = wantBrace
		return err
	case wantBrace:
		if string(w) != "{" {
			return ErrBrace
		}
		p.state = wantName
		return nil
	case wantNodeID:
		if isDigit(w[0]) || w[0] == '*' {
			id, err := parsePMID(w)
			if err == errNotPMID {
				return ErrNameOrPMID
			}
			p.entries[len(p.entries)-1].id = id
			p.state = wantName
			return err
		}
	}
	if string(w) == "}" {
		p.state = wantPath
		return nil
	}
	if !isName(w) {
		if p.state == wantName {
			return ErrName
		}
		return ErrNameOrPMID
	}
	name, err := p.keep(w, entryCost)
	p.entries = append(p.entries, entry{name, pdu.NoPMID, p.here(col)})
	p.blocks[len(p.blocks)-1].count++
	p.state = wantNodeID
	if len(p.entries) > maxNodes {
		return ErrSize
	}
	return err
}

// keep copies w to p.text. Cost is the number of further bytes that it will need.
func (p *parser) keep(w []byte, cost int) (span, error) {
	s := span{uint32(len(p.text)), uint32(len(w))}
	if err := p.spent.spend(int64(len(w) + cost)); err != nil || len(p.text) > math.MaxInt32-len(w) {
		return span{}, ErrSize
	}
	p.text = append(p.text, w...)
	return s, nil
}

// string returns the text of s. It is valid until the next call of keep.
func (p *parser) string(s span) []byte { return p.text[s.off : s.off+s.len] }

func (p *parser) here(col int) filePos {
	if len(p.files) == 0 || p.files[p.fileNo] != p.file {
		i, ok := p.index[p.file]
		if !ok {
			i = int32(len(p.files))
			p.index[p.file] = i
			p.files = append(p.files, p.file)
		}
		p.fileNo = i
	}
	return filePos{p.fileNo, int32(p.line), int32(col + 1)}
}

// pos is the inverse of here.
func (p *parser) pos(at filePos) Pos {
	return Pos{p.files[at.file], int(at.line), int(at.col)}
}

// errorAt returns an error in the line being read, at column col from 0.
func (p *parser) errorAt(line []byte, col int, err error) *Error {
	return &Error{Pos{p.file, p.line, col + 1}, clip(line), err}
}

// withPos returns err with the position of the line being read, unless it has one.
func (p *parser) withPos(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Pos: Pos{File: p.file, Line: p.line}, Err: err}
}

// isName reports whether w is a NAME of PMNS(5): a letter, and then letters, digits
// and underscores.
func isName(w []byte) bool {
	if len(w) == 0 || !isLetter(w[0]) {
		return false
	}
	for _, b := range w[1:] {
		if !isLetter(b) && !isDigit(b) && b != '_' {
			return false
		}
	}
	return true
}

// isPath reports whether w consists of names with dots between them. C pmcd differs:
// it accepts paths with, for example, empty names, whose blocks are disconnected.
func isPath(w []byte) bool {
	for {
		name, rest, more := bytes.Cut(w, []byte{'.'})
		if !isName(name) {
			return false
		}
		if !more {
			return true
		}
		w = rest
	}
}
