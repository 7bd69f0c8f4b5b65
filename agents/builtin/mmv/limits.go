package mmv

import "time"

// Limits of what files cost. A file with all metrics that a file can have, and 900 instances
// of each, is below them.
const (
	// maxRead is the size of a file in bytes. A larger one is ignored.
	maxRead = 32 << 20
	// maxReadAll is the size of all files. Further ones are ignored.
	maxReadAll = 512 << 20
	// maxMemory is about how many bytes of memory all files may take. Further ones are
	// ignored. A file of which the names take more than maxFileMemory loses instances.
	maxMemory     = 128 << 20
	maxFileMemory = 32 << 20
	// maxFiles is how many files there may be: there are no more clusters. Further
	// names in the directory are not even looked at.
	maxFiles = 4095
	maxNames = 4 * maxFiles
	// maxMetricSections is how many sections of metrics of a file are read: for each
	// value, the one that its metric is in is looked for. A valid file has one.
	maxMetricSections = 16
)

// A budget limits the time for what clients have not asked for: to look for changes,
// and to read changed files. Without it, a program that changes its file or the
// directory all the time would make each request read them again.
//
// It is full at the start, with burst. Time that is spent is taken from it, and it
// fills again with a fraction of the time that passes. While it is empty, requests are
// answered with the files as they were read before, and a value whose file has changed
// is PM_ERR_AGAIN.
type budget struct {
	left time.Duration
	last time.Time
}

const (
	burst    = time.Second
	maxDebt  = 2 * time.Second // one reload may take longer than what is left
	fraction = 5               // one fifth of the time
)

func newBudget(now time.Time) budget { return budget{burst, now} }

// allows reports whether there is something left.
func (b *budget) allows(now time.Time) bool {
	if d := now.Sub(b.last); d > 0 {
		b.left = min(b.left+d/fraction, burst)
	}
	b.last = now
	return b.left > 0
}

func (b *budget) spend(d time.Duration) { b.left = max(b.left-d, -maxDebt) }
