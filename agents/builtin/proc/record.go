package proc

import "github.com/gopcp/pmcd/agents/builtin/internal/sysfile"

// A record is the parsed contents of one file of a process or of a group, as the
// fields of the file's format.
type record struct {
	request uint64 // number of the request that has read it
	err     error  // for the client, if the file could not be read
	ok      bool   // the file has been read
	nums    []uint64
	present uint64 // a bit for each field that the file has
	text    []byte // of all text fields, see setText
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

// setText sets a text field. nums has the position and the length of the text in
// r.text.
func (r *record) setText(field int, b []byte) {
	r.set(field, uint64(len(r.text))<<32|uint64(len(b)))
	r.text = append(r.text, b...)
}

func (r *record) has(field int) bool { return r.present>>field&1 != 0 }

// string returns a text field, nil if the file does not have it.
func (r *record) string(field int) []byte {
	at, n := r.nums[field]>>32, r.nums[field]&(1<<32-1)
	return r.text[at : at+n]
}

// A format says how to read one kind of file of processes or groups. It has at
// most 64 fields.
type format struct {
	file   string
	fields int
	parse  func(r *record, b []byte)

	// read, if not nil, is used in place of file and parse. It fills the record by
	// other means than reading a file, such as readlink(2).
	read func(p *process, r *record) error

	// mayBeEmpty says that the file may be empty. All fields are 0 then.
	mayBeEmpty bool

	// kind is that of the file of a process.
	kind sysfile.Kind

	// optional says that kernels may be built without the file: its absence is not
	// an error.
	optional bool

	// private says that the kernel shows the file only to users that may trace the
	// process (ptrace(2), "Ptrace access mode checking").
	private bool
}

// parseWords parses a line of numbers with blanks between them. The field of a word
// that is not a number is absent.
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
// Fields are in the order of names.
func keyed(names ...string) func(r *record, b []byte) {
	places := make(map[string]int, len(names))
	for i, name := range names {
		places[name] = i
	}
	return keyedBy(places)
}

// keyedBy is like keyed, with the index of the field for each name.
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
