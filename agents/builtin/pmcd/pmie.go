package pmcd

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"

	"github.com/gopcp/pmcd/pdu"
)

// A pmie is the contents of the file that a pmie process writes about itself. The
// name of the file is its pid.
type pmie struct {
	inst                                         pdu.Inst
	config, log, pmcdHost                        string
	expected                                     float32 // evaluations a second
	rules, actions                               uint32
	evalTrue, evalFalse, evalUnknown, evalActual uint32 // evaluations by outcome, and all
}

// pmieMetrics is cluster 5.
var pmieMetrics = []metric{
	{0, "pmcd.pmie.configfile", str, indomPmies, discrete, none, pmieText(func(v *pmie) string { return v.config }), nil},
	{1, "pmcd.pmie.logfile", str, indomPmies, discrete, none, pmieText(func(v *pmie) string { return v.log }), nil},
	{2, "pmcd.pmie.pmcd_host", str, indomPmies, discrete, none, pmieText(func(v *pmie) string { return v.pmcdHost }), nil},
	{3, "pmcd.pmie.numrules", u32, indomPmies, discrete, none, pmieWord(func(v *pmie) uint32 { return v.rules }), nil},
	{4, "pmcd.pmie.actions", u32, indomPmies, counter, count, pmieWord(func(v *pmie) uint32 { return v.actions }), nil},
	{5, "pmcd.pmie.eval.true", u32, indomPmies, counter, count, pmieWord(func(v *pmie) uint32 { return v.evalTrue }), nil},
	{6, "pmcd.pmie.eval.false", u32, indomPmies, counter, count, pmieWord(func(v *pmie) uint32 { return v.evalFalse }), nil},
	{7, "pmcd.pmie.eval.unknown", u32, indomPmies, counter, count, pmieWord(func(v *pmie) uint32 { return v.evalUnknown }), nil},
	{8, "pmcd.pmie.eval.expected", float, indomPmies, discrete, perSec, eachPmie(func(w *pdu.ResultWriter, inst int32, v *pmie) {
		w.Float32(inst, v.expected)
	}), nil},
	{9, "pmcd.pmie.eval.actual", u32, indomPmies, counter, count, pmieWord(func(v *pmie) uint32 { return v.evalActual }), nil},
}

func eachPmie(put func(*pdu.ResultWriter, int32, *pmie)) fetchFunc {
	return each((*fetch).pmies, func(v *pmie) int32 { return v.inst.ID }, put)
}

func pmieWord(get func(*pmie) uint32) fetchFunc {
	return eachPmie(func(w *pdu.ResultWriter, inst int32, v *pmie) { w.Word(inst, get(v)) })
}

func pmieText(get func(*pmie) string) fetchFunc {
	return eachPmie(func(w *pdu.ResultWriter, inst int32, v *pmie) { w.String(inst, get(v)) })
}

// pmies returns the pmies in the order of their ids. Instances has them in the order
// of names.
func (f *fetch) pmies() []pmie {
	if markFetched(&f.fetched.pmies) {
		if p, some := f.requested(indomPmies); some {
			f.pmiesNow, f.err = f.a.pmies(f.ctx, f.pmiesNow[:0], p)
			slices.SortFunc(f.pmiesNow, func(a, b pmie) int { return cmp.Compare(a.inst.ID, b.inst.ID) })
		}
	}
	return f.pmiesNow
}

// pmies appends the pmies of this host that p selects to list, in the order of their
// files' names. The primary one, whose pid is in pmie.pid, has a second instance at
// the end.
//
// pmie maps its file into memory. pmies reads the files instead: access to a mapped
// file that has been truncated would kill pmcd.
func (a *Agent) pmies(ctx context.Context, list []pmie, p pdu.InDomProfile) ([]pmie, error) {
	if a.config.TmpDir == "" {
		return list, nil
	}
	var primaryPID int32
	if a.config.RunDir != "" && p.Includes(primaryInst) {
		if err := a.files.do(ctx, func() { primaryPID = readPID(filepath.Join(a.config.RunDir, "pmie.pid")) }); err != nil {
			return list, err
		}
	}
	err := a.eachPIDFile(ctx, filepath.Join(a.config.TmpDir, "pmie"), pmieFileLen+1, p, primaryPID, func(inst pdu.Inst, b []byte) {
		if v, ok := parsePmie(b); ok {
			v.inst = inst
			list = append(list, v)
		}
	})
	return list, err
}

// The format of a pmie's file, in the byte order of the host:
//
//	config    [4097]byte  // strings end with a NUL
//	log       [4097]byte
//	host      [65]byte
//	pad       [1]byte
//	expected  float32
//	numrules, actions, true, false, unknown, actual, version uint32
const (
	pmieLog     = 4097
	pmieHost    = pmieLog + 4097
	pmieNumbers = pmieHost + 65 + 1
	pmieFileLen = pmieNumbers + 8*4
	pmieVersion = 1
)

// parsePmie parses the file of a pmie; it returns false if the format is another one.
func parsePmie(b []byte) (pmie, bool) {
	if len(b) != pmieFileLen {
		return pmie{}, false
	}
	var n [8]uint32
	for i := range n {
		n[i] = binary.NativeEndian.Uint32(b[pmieNumbers+4*i:])
	}
	if n[7] != pmieVersion {
		return pmie{}, false
	}
	return pmie{
		config:      cString(b[:pmieLog]),
		log:         cString(b[pmieLog:pmieHost]),
		pmcdHost:    cString(b[pmieHost : pmieNumbers-1]),
		expected:    math.Float32frombits(n[0]),
		rules:       n[1],
		actions:     n[2],
		evalTrue:    n[3],
		evalFalse:   n[4],
		evalUnknown: n[5],
		evalActual:  n[6],
	}, true
}
