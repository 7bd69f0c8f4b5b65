package pmnsload

//lint:file-ignore ST1005 PCP's texts

import "errors"

// Mistakes in a name space. Err of every Error is or wraps one of these or an
// error of the file system. The texts are PCP's, except those of ErrSize and ErrShell.
var (
	// ErrCpp is any mistake that the preprocessor finds.
	ErrCpp = errors.New("pmcpp returned non-zero exit status")

	ErrPath          = errors.New("Expected NAME or PATH")
	ErrBrace         = errors.New("{ expected")
	ErrName          = errors.New("Expected NAME or }")
	ErrNameOrPMID    = errors.New("Expected NAME, PMID or }")
	ErrPMID          = errors.New("Illegal PMID")
	ErrDomain        = errors.New("Illegal domain field in PMID")
	ErrCluster       = errors.New("Illegal cluster field in PMID")
	ErrItem          = errors.New("Illegal item field in PMID")
	ErrLine          = errors.New("Absurdly long line, cannot recover")
	ErrControl       = errors.New("Illegal line number control number")
	ErrDuplicateName = errors.New("Duplicate name")
	ErrUndefined     = errors.New("Cannot find definition for non-terminal node")
	ErrDisconnected  = errors.New("Disconnected subtree")
	ErrNoRoot        = errors.New(`No name space entry for "root"`)
	ErrRoots         = errors.New(`Multiple name space entries for "root"`)
	ErrDuplicatePMID = errors.New("Duplicate metric id")

	// ErrSize reports that the text or the tree exceeds Options.MaxBytes.
	// C pmcd differs: it has no limit.
	ErrSize = errors.New("Name space too large")

	// ErrShell reports a #shell line where Options.Shell is nil.
	ErrShell = errors.New("commands are not allowed")

	errInternal = errors.New("internal error")
	errMore     = errors.New("Too many errors")
)
