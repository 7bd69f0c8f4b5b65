package pdu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strconv"
	"syscall"
)

// Errno is a negative PCP error code as Error PDUs and value sets carry it: a
// PM_ERR_* code, or the negated errno of a system call. It is the only error
// type that crosses the wire.
type Errno int32

// PM_ERR_* codes (pmapi.h). The codes of tools and archives are included because
// an agent may send any code.
const (
	ErrnoGeneric        Errno = -12345 // any error that has no code
	ErrnoPMNS           Errno = -12346 // name space cannot be parsed
	ErrnoNoPMNS         Errno = -12347 // no name space
	ErrnoDupPMNS        Errno = -12348
	ErrnoText           Errno = -12349 // no help text
	ErrnoAppVersion     Errno = -12350 // metric not in this version of what is monitored
	ErrnoValue          Errno = -12351 // value missing
	ErrnoLicense        Errno = -12352 // retired
	ErrnoTimeout        Errno = -12353 // no answer in time
	ErrnoNoData         Errno = -12354
	ErrnoReset          Errno = -12355
	ErrnoFile           Errno = -12356 // retired
	ErrnoName           Errno = -12357 // unknown metric name
	ErrnoPMID           Errno = -12358 // unknown or illegal metric identifier
	ErrnoInDom          Errno = -12359 // unknown or illegal instance domain
	ErrnoInst           Errno = -12360 // unknown or illegal instance
	ErrnoUnit           Errno = -12361
	ErrnoConv           Errno = -12362 // impossible conversion of a value
	ErrnoTrunc          Errno = -12363
	ErrnoSign           Errno = -12364 // negative value for an unsigned metric
	ErrnoProfile        Errno = -12365
	ErrnoIPC            Errno = -12366 // IPC protocol failure
	ErrnoNoASCII        Errno = -12367 // retired
	ErrnoEOF            Errno = -12368
	ErrnoNotHost        Errno = -12369
	ErrnoEOL            Errno = -12370
	ErrnoMode           Errno = -12371
	ErrnoLabel          Errno = -12372
	ErrnoLogRec         Errno = -12373
	ErrnoNotArchive     Errno = -12374
	ErrnoLogFile        Errno = -12375
	ErrnoNoContext      Errno = -12376
	ErrnoProfileSpec    Errno = -12377
	ErrnoPMIDLog        Errno = -12378
	ErrnoInDomLog       Errno = -12379
	ErrnoInstLog        Errno = -12380
	ErrnoNoProfile      Errno = -12381 // fetch in a context without a profile
	ErrnoNoAgent        Errno = -12386 // no agent for the domain
	ErrnoPermission     Errno = -12387 // not allowed
	ErrnoConnLimit      Errno = -12388 // too many connections
	ErrnoAgain          Errno = -12389 // not available now
	ErrnoIsConn         Errno = -12390
	ErrnoNotConn        Errno = -12391 // not connected; to an agent: that client is gone
	ErrnoNeedPort       Errno = -12392
	ErrnoWantAck        Errno = -12393 // retired
	ErrnoNonLeaf        Errno = -12394 // name of no metric, but of names below it
	ErrnoObjStyle       Errno = -12395 // retired
	ErrnoPMCDLicense    Errno = -12396 // retired
	ErrnoType           Errno = -12397 // unknown or illegal type
	ErrnoThread         Errno = -12398
	ErrnoNoContainer    Errno = -12399 // no such container
	ErrnoBadStore       Errno = -12400 // value cannot be stored
	ErrnoLogOverlap     Errno = -12401
	ErrnoLogHost        Errno = -12402
	ErrnoLogTimeZone    Errno = -12403 // retired
	ErrnoLogChangeType  Errno = -12404
	ErrnoLogChangeSem   Errno = -12405
	ErrnoLogChangeInDom Errno = -12406
	ErrnoLogChangeUnits Errno = -12407
	ErrnoNeedClientCert Errno = -12408 // client certificate required
	ErrnoBadDerive      Errno = -12409
	ErrnoNoLabels       Errno = -12410 // peer knows no labels
	ErrnoPMDAFenced     Errno = -12411 // agent is fenced
	ErrnoRecType        Errno = -12412
	ErrnoFeature        Errno = -12413
	ErrnoTLS            Errno = -12414
	ErrnoArg            Errno = -12415 // bad argument
	ErrnoBotch          Errno = -12442
	ErrnoTooSmall       Errno = -12443 // list too short
	ErrnoTooBig         Errno = -12444 // too large
	ErrnoFault          Errno = -12445
	ErrnoReady          Errno = -13393 // agent is ready now
	ErrnoNotReady       Errno = -13394 // agent not ready yet
	ErrnoNYI            Errno = -21344 // not implemented; from there down SASL codes
)

// Negated errnos that pmcd itself sends. The numbers are those of Linux, the
// system of the sender.
const (
	ErrnoEAGAIN     Errno = -11 // too many contexts
	ErrnoEINVAL     Errno = -22
	ErrnoEPIPE      Errno = -32 // cannot write to an agent
	ErrnoEOPNOTSUPP Errno = -95
)

// ErrnoOf returns the code in err: an Errno that err is or wraps, PM_ERR_IPC
// for a ParseError and PM_ERR_TOOBIG for one about a length, PM_ERR_TIMEOUT for a deadline,
// PM_ERR_PERMISSION, or a negated errno. It is PM_ERR_GENERIC for all others,
// and 0 for nil.
func ErrnoOf(err error) Errno {
	var code Errno
	var perr *ParseError
	var errno syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrTooLong):
		return ErrnoTooBig
	case errors.As(err, &code) && code < 0:
		return code
	case errors.As(err, &perr):
		return ErrnoIPC
	case errors.Is(err, context.DeadlineExceeded):
		return ErrnoTimeout
	case errors.Is(err, fs.ErrPermission):
		return ErrnoPermission
	case errors.As(err, &errno) && errno != 0:
		return Errno(-int32(errno))
	case isTimeout(err):
		return ErrnoTimeout
	}
	return ErrnoGeneric
}

// isTimeout reports whether err is a timeout, such as that of a net.Conn. It is a function of its
// own because its variable escapes.
func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// maxOSErrno is the last errno of Linux.
const maxOSErrno = 133

// Error returns a text for e. It is not the text of pmErrStr(3).
func (e Errno) Error() string {
	switch {
	case e == 0:
		return "no error"
	case e < 0 && e >= -maxOSErrno && runtime.GOOS != "linux":
		return fmt.Sprintf("errno %d of Linux", -int32(e))
	case e < 0 && e >= -maxOSErrno:
		return syscall.Errno(-e).Error()
	case e < ErrnoNYI && e >= ErrnoNYI-100:
		return fmt.Sprintf("authentication failed (SASL %d)", int32(e-ErrnoNYI))
	}
	if t := e.entry(); t != nil {
		return t.text
	}
	return fmt.Sprintf("PCP error %d", int32(e))
}

// Name returns the symbol of e, such as PM_ERR_PMID. For an errno and for
// numbers without a symbol it is the number.
func (e Errno) Name() string {
	if t := e.entry(); t != nil {
		return t.name
	}
	return strconv.Itoa(int(e))
}

func (e Errno) entry() *errnoEntry {
	i := int(ErrnoGeneric) - int(e)
	switch e {
	case ErrnoReady:
		return &errnoReady
	case ErrnoNotReady:
		return &errnoNotReady
	case ErrnoNYI:
		return &errnoNYI
	}
	if i < 0 || i >= len(errnoTable) || errnoTable[i].name == "" {
		return nil
	}
	return &errnoTable[i]
}
