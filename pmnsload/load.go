package pmnsload

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
)

// Options select how to read a name space. The zero Options are those for pmcd's
// default file.
type Options struct {
	// Preprocess enables the preprocessor, for files of -n and -N. Without it,
	// lines # N "file" are the only control lines.
	Preprocess bool

	// Unique makes a PMID with two names an error (pmcd -N), except for
	// dynamic roots.
	Unique bool

	// IncludePath lists the directories that #include searches after the
	// directory of the first file. For pmcpp(1), $PCP_VAR_DIR/pmns is the last.
	IncludePath []string

	// Open opens the file and included files. If it is nil, regular files can be opened.
	Open func(path string) (io.ReadCloser, error)

	// Shell runs the commands of #shell. If it is nil, no command is run: a
	// #shell line that is not skipped is an error, because names would be
	// missing without its output. The function Shell runs them as pmcpp(1) does.
	Shell ShellFunc

	// Warn, unless it is nil, is called for commands of #shell that failed.
	// Their output is used nevertheless.
	Warn func(*Error)

	// MaxBytes limits the sum of the text read, the text after preprocessing
	// and the names in the tree, in bytes. 0 means DefaultMaxBytes.
	MaxBytes int64
}

// DefaultMaxBytes is enough for a name space of a million names.
const DefaultMaxBytes = 256 << 20

// withDefaults returns a copy of o with defaults in place of zero values.
func (o Options) withDefaults() *Options {
	if o.Open == nil {
		o.Open = openFile
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	return &o
}

// Load reads the name space in a file. Its error is an ErrorList. It has no context,
// because the files that it opens do not block, unless their file system does. The
// context of Shell ends the commands.
func Load(path string, opt Options) (*Tree, error) {
	rc, err := opt.withDefaults().Open(path)
	if err != nil {
		return nil, cannotOpen(path, err)
	}
	return parse(path, rc, opt)
}

// Parse reads a name space from r. Name is the name of the file in messages. The
// error is an ErrorList.
func Parse(name string, r io.Reader, opt Options) (*Tree, error) {
	return parse(name, io.NopCloser(r), opt)
}

func parse(name string, rc io.ReadCloser, options Options) (t *Tree, err error) {
	opt := options.withDefaults()
	spent := &budget{opt.MaxBytes}
	src, done := opt.source(name, rc, spent)
	defer done()
	p := &parser{src: src, spent: spent, file: name}
	p.reserve(size(rc))
	// A bug must not end a daemon that reloads a file.
	defer func() {
		if v := recover(); v != nil {
			t, err = nil, ErrorList{p.errorAt(nil, 0, causef(errInternal, "%v\n%s", v, debug.Stack()))}
		}
	}()
	if err := p.parse(); err != nil {
		return nil, ErrorList{p.withPos(err)}
	}
	return build(p, opt.Unique)
}

// size returns the size of a file that has a Stat method, else 0.
func size(rc io.ReadCloser) int64 {
	if f, ok := rc.(interface{ Stat() (fs.FileInfo, error) }); ok {
		if fi, err := f.Stat(); err == nil {
			return fi.Size()
		}
	}
	return 0
}

// source returns the lines of rc, and a function that closes it.
func (o *Options) source(name string, rc io.ReadCloser, spent *budget) (lineSource, func()) {
	if o.Preprocess {
		c := newCpp(name, rc, o, spent)
		return c, c.close
	}
	in := newInput(name, rc, spent)
	return in, func() { in.close() }
}

// cannotOpen is the error for a file that cannot be opened.
func cannotOpen(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return ErrorList{{Err: &cause{err, fmt.Sprintf("Cannot open %q: %v", path, err)}}}
}
