package proc

import "bytes"

// A runq is the values of proc.runq: the number of processes in each state.
type runq [8]uint64

// Indexes into a runq, which are also the items of the metrics.
const (
	runnable = iota
	blocked
	sleeping
	stopped
	swapped
	defunct
	unknown
	kernel
)

func (q *runq) count(list []*process) error {
	*q = runq{}
	for _, p := range list {
		if err := p.tree.ended(); err != nil {
			return err
		}
		r := p.record(formatStat)
		state := byte(0)
		if s := r.string(statState); len(s) > 0 {
			state = s[0]
		}
		switch {
		case !r.ok():
			q[unknown]++
		case state == 'Z':
			q[defunct]++
		case r.num(statVsize) == 0:
			q[swapped]++ // or a kernel thread
		default:
			i := bytes.IndexByte([]byte("RDSTtP"), state)
			q[[]int{unknown, runnable, blocked, sleeping, stopped, stopped, blocked}[i+1]]++
		}
	}
	return nil
}
