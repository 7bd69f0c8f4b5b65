package openmetrics

import (
	"errors"
	"time"
)

// Limits of what a source can cost. A page that exceeds one has no values, and the status and the
// log say which it is.
const (
	maxPage   = 64 << 20 // bytes of a page, after decompression
	maxLine   = 64 << 10 // bytes of a line
	maxSeries = 250_000  // samples of a page
	maxLabels = 128      // of a series

	maxSetLabels = 254 // of a metric, for clients

	maxStatus = 1000 // bytes of openmetrics.control.status

	maxName     = 1024  // bytes of the name of a metric
	maxDepth    = 64    // parts of it
	maxSources  = 0xfff // the highest cluster
	lastSource  = 0xffb // the highest one whose metrics may have instances: serials have 22 bits
	maxItems    = 1024  // metrics of a source
	maxReads    = 1000  // sources that are read at the same time
	maxWrites   = 16    // files of a source that are written at the same time
	maxInstance = 1 << 20

	// maxSavedNames is how many instances the metrics of a source may have had since they were
	// first seen. Further ones have no values.
	maxSavedNames = 1_000_000

	// maxSavedBytes is how many bytes of all saved files of a source may have those names.
	maxSavedBytes = 256 << 20

	// maxHeld is how many bytes of labels, and of values that are strings, are kept of instances that
	// a page does not have any more, and how many bytes of series whose labels are parsed already.
	// It is more than a page can have, so that they are not dropped with each one.
	maxHeld = 2 * maxPage
)

// emptyRetry is how long after a read a source without metrics is read again for its names.
const emptyRetry = 10 * time.Second

var (
	errPageTooLong   = errors.New("the page is longer than 64 MiB")
	errLineTooLong   = errors.New("a line is longer than 64 KiB")
	errTooManySeries = errors.New("the page has more than 250,000 samples")
	errTooManyLabels = errors.New("a series has more than 128 labels")
)
