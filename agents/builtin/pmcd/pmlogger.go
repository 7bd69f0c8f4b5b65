package pmcd

import (
	"bytes"
	"context"
	"path/filepath"
	"strconv"

	"github.com/gopcp/pmcd/pdu"
)

// A logger is the contents of the file that a pmlogger process writes about itself.
// The name of the file is its pid. Its lines are the port, the host whose pmcd it
// is connected to, the archive that it writes, and, from PCP 7.2 on, a note.
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
	return each((*fetch).loggers, func(v *logger) int32 { return v.inst.ID }, put)
}

func (f *fetch) loggers() []logger {
	if markFetched(&f.fetched.loggers) {
		if p, some := f.requested(indomLoggers); some {
			f.loggersNow, f.err = f.a.loggers(f.ctx, f.loggersNow[:0], p)
		}
	}
	return f.loggersNow
}

// maxLoggerFile is larger than any file that pmlogger writes, in bytes.
const maxLoggerFile = 16 << 10

// loggers appends the pmloggers of this host that p selects to list, in the order of
// their files' names. The file primary is a symbolic link to one of the others.
func (a *Agent) loggers(ctx context.Context, list []logger, p pdu.InDomProfile) ([]logger, error) {
	if a.config.TmpDir == "" {
		return list, nil
	}
	dir := filepath.Join(a.config.TmpDir, "pmlogger")
	var primaryPID int32
	if p.Includes(primaryInst) {
		if err := a.files.do(ctx, func() { primaryPID = linkedPID(filepath.Join(dir, primaryName)) }); err != nil {
			return list, err
		}
	}
	err := a.eachPIDFile(ctx, dir, maxLoggerFile, p, primaryPID, func(inst pdu.Inst, b []byte) {
		if l, ok := parseLogger(b); ok {
			l.inst = inst
			list = append(list, l)
		}
	})
	return list, err
}

// parseLogger parses the file of a pmlogger. It returns false if the first line is
// not a port or not complete yet.
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
