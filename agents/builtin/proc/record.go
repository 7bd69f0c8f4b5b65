package proc

import "github.com/gopcp/pmcd/agents/builtin/internal/sysfile"

// A record is what was read of one file of a process or of a group, as the
// fields that its format has.
type record struct {
	request uint64 // of the request that has read it
	err     error  // why there is nothing, if the client is to know
	ok      bool   // there is something
	nums    []uint64
	present uint64 // bits of the fields that the file has
	text    []byte // of all fields that are text
}

func (r *record) reset(fields int) {
	if r.nums == nil {
		r.nums = make([]uint64, fields)
	}
	clear(r.nums)
	r.err, r.ok, r.present, r.text = nil, false, 0, r.text[:0]
}

func (r *record) set(field int, n uint64) {
	r.nums[field] = n
	r.present |= 1 << field
}

// setText sets a field that is text. It is kept as where it is in r.text.
func (r *record) setText(field int, b []byte) {
	r.set(field, uint64(len(r.text))<<32|uint64(len(b)))
	r.text = append(r.text, b...)
}

func (r *record) has(field int) bool { return r.present>>field&1 != 0 }

// string returns a field that is text, nothing if it is not there.
func (r *record) string(field int) []byte {
	at, n := r.nums[field]>>32, r.nums[field]&(1<<32-1)
	return r.text[at : at+n]
}

// A format says how to read a kind of file, of which each process or group has
// one. Fields are 64 at most.
type format struct {
	file   string
	fields int
	parse  func(r *record, b []byte)

	// read, if not nil, is used in place of file: it has the record filled by
	// other means than by reading a file.
	read func(p *process, r *record) error

	// zero is a file that may be empty: its fields are 0 then.
	mayBeEmpty bool

	// optional is a file that the kernel may be built without: that is no error.
	optional bool

	// private is a file that the kernel has for those who may trace the
	// process only (ptrace(2), "Ptrace access mode checking").
	private bool
}

// parseWords parses numbers with blanks between them, by place. One that is broken is
// not there.
func parseWords(r *record, b []byte) {
	b, _ = sysfile.CutLine(b)
	for i := range r.nums {
		var word []byte
		if word, b = sysfile.Field(b); len(word) == 0 {
			break
		}
		if n, ok := sysfile.Uint(word); ok {
			r.set(i, n)
		}
	}
}

// keyed returns a parser of lines
//
//	NAME: NUMBER UNIT
//	NAME NUMBER
//
// for the names given, by place.
func keyed(names ...string) func(r *record, b []byte) {
	places := make(map[string]int, len(names))
	for i, name := range names {
		places[name] = i
	}
	return keyedBy(places)
}

// keyedBy is keyed for places that are given.
func keyedBy(places map[string]int) func(r *record, b []byte) {
	return func(r *record, b []byte) {
		for len(b) > 0 {
			var line []byte
			line, b = sysfile.CutLine(b)
			word, rest := sysfile.Field(line)
			if n := len(word); n > 0 && word[n-1] == ':' {
				word = word[:n-1]
			}
			if i, ok := places[string(word)]; ok {
				word, _ = sysfile.Field(rest)
				if n, ok := sysfile.Uint(word); ok {
					r.set(i, n)
				}
			}
		}
	}
}
