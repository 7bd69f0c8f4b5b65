package pmcd

import (
	"bytes"
	"path/filepath"
	"strconv"

	"github.com/gopcp/pmcd/pdu"
)

// A logger is what a pmlogger process says about itself in a file named by its
// pid: its port, the host whose pmcd it asks, the archive it writes, and, from
// PCP 7.2 on, a note; one a line.
type logger struct {
	inst                    pdu.Inst
	port                    uint32
	pmcdHost, archive, note string
}

// loggerMetrics is cluster 3.
var loggerMetrics = []metric{
	{0, "pmcd.pmlogger.port", u32, indomLoggers, discrete, none, eachLogger(func(w *pdu.ResultWriter, inst int32, v *logger) {
		w.Word(inst, v.port)
	}), nil},
	{1, "pmcd.pmlogger.pmcd_host", str, indomLoggers, discrete, none, eachLogger(func(w *pdu.ResultWriter, inst int32, v *logger) {
		w.String(inst, v.pmcdHost)
	}), nil},
	{2, "pmcd.pmlogger.archive", str, indomLoggers, discrete, none, eachLogger(func(w *pdu.ResultWriter, inst int32, v *logger) {
		w.String(inst, v.archive)
	}), nil},
	{3, "pmcd.pmlogger.host", str, indomLoggers, discrete, none, eachLogger(func(w *pdu.ResultWriter, inst int32, _ *logger) {
		w.String(inst, hostname())
	}), nil},
	{4, "pmcd.pmlogger.note", str, indomLoggers, discrete, none, eachLogger(func(w *pdu.ResultWriter, inst int32, v *logger) {
		w.String(inst, v.note)
	}), nil},
}

func eachLogger(put func(*pdu.ResultWriter, int32, *logger)) fetchFunc {
	return each(indomLoggers, (*fetch).loggers, func(v *logger) int32 { return v.inst.ID }, put)
}

func (f *fetch) loggers() []logger {
	if markFetched(&f.fetched.loggers) {
		f.loggersNow = loggers(f.a.config.TmpDir, f.loggersNow[:0])
	}
	return f.loggersNow
}

// maxLoggerFile is larger than any file that pmlogger writes: a path and a
// host name, and a note.
const maxLoggerFile = 16 << 10

// loggers appends the pmloggers of this host to list, by name of their files.
// That called primary is a link to one of the others.
func loggers(tmpDir string, list []logger) []logger {
	if tmpDir == "" {
		return list
	}
	dir := filepath.Join(tmpDir, "pmlogger")
	primaryPID := linkedPID(filepath.Join(dir, primaryName))
	var buf []byte
	var primary *logger
	for _, file := range pidFiles(dir) {
		if buf == nil {
			buf = make([]byte, maxLoggerFile)
		}
		b, err := readSmall(filepath.Join(dir, file.Name), buf)
		if err != nil {
			continue
		}
		l, ok := parseLogger(b)
		if !ok {
			continue
		}
		l.inst = file
		list = append(list, l)
		if file.ID == primaryPID {
			primary = &l
			primary.inst = pdu.Inst{ID: 0, Name: primaryName}
		}
	}
	if primary != nil {
		list = append(list, *primary) // as a file it would come last too
	}
	return list
}

// parseLogger reads the file of a pmlogger; false if it is none, which it also
// is not until the first line is complete.
func parseLogger(b []byte) (logger, bool) {
	line, rest, ok := bytes.Cut(b, newline)
	port, err := strconv.ParseUint(string(line), 10, 16)
	if !ok || err != nil {
		return logger{}, false
	}
	l := logger{port: uint32(port)}
	for _, field := range []*string{&l.pmcdHost, &l.archive, &l.note} {
		line, rest, _ = bytes.Cut(rest, newline)
		*field = cString(line)
	}
	return l, true
}

var newline = []byte("\n")
