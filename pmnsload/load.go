package pmnsload

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
)

// Options tell how to read a name space.
type Options struct {
	// Preprocess is for files of -n and -N. The default file is read as it
	// is, with lines # N "file" as the only control lines.
	Preprocess bool

	// Unique makes a PMID with two names an error (pmcd -N). Dynamic roots
	// are excepted.
	Unique bool

	// IncludePath is the directories that #include searches after that of
	// the first file. pmcpp(1) has $PCP_VAR_DIR/pmns as the last one.
	IncludePath []string

	// Open opens what is read and included; nil means files that are
	// regular or character devices.
	Open func(path string) (io.ReadCloser, error)

	// Shell runs the commands of #shell; nil means Shell with no end of its
	// own. A daemon gives it one, or NoShell.
	Shell ShellFunc

	// Warn is told of commands of #shell that failed. Their output counts
	// all the same.
	Warn func(*Error)

	// MaxBytes bounds the text read, the text after preprocessing and the
	// names in the tree, taken together, in bytes; 0 means DefaultMaxBytes.
	MaxBytes int64
}

// DefaultMaxBytes is enough for a million names.
const DefaultMaxBytes = 256 << 20

// withDefaults returns a copy without nils.
func (o Options) withDefaults() *Options {
	if o.Open == nil {
		o.Open = openFile
	}
	if o.Shell == nil {
		o.Shell = Shell(context.Background())
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	return &o
}

// Load reads the name space of a file. Its error is an ErrorList.
func Load(path string, opt Options) (*Tree, error) {
	rc, err := opt.withDefaults().Open(path)
	if err != nil {
		return nil, cannotOpen(path, err)
	}
	return parse(path, rc, opt)
}

// Parse reads a name space from r, which messages call name. Its error is an
// ErrorList.
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
	// A file must not end a daemon that reads it again.
	defer func() {
		if v := recover(); v != nil {
			t, err = nil, ErrorList{p.errorAt(nil, 0, causef(errInternal, "%v\n%s", v, debug.Stack()))}
		}
	}()
	if err := p.parse(); err != nil {
		return nil, ErrorList{p.place(err)}
	}
	return build(p, opt.Unique)
}

// size returns the size of a file that tells it, else 0.
func size(rc io.ReadCloser) int64 {
	if f, ok := rc.(interface{ Stat() (fs.FileInfo, error) }); ok {
		if fi, err := f.Stat(); err == nil {
			return fi.Size()
		}
	}
	return 0
}

// source returns the lines of rc, and what to do when no more are wanted.
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

// Preprocess writes to w what pmcpp(1) makes of a file, as far as it gets.
// C pmcd differs: pmcpp drops a last line without newline.
func Preprocess(w io.Writer, path string, options Options) error {
	opt := options.withDefaults()
	opt.Preprocess = true
	rc, err := opt.Open(path)
	if err != nil {
		return cannotOpen(path, err)
	}
	src, done := opt.source(path, rc, &budget{opt.MaxBytes})
	defer done()
	out := bufio.NewWriter(w)
	for {
		line, err := src.next()
		if err != nil {
			flushed := out.Flush()
			if e, ok := err.(*Error); ok {
				return ErrorList{e}
			}
			return flushed // err is io.EOF
		}
		out.Write(line)
		out.WriteByte('\n') // the error sticks
	}
}
