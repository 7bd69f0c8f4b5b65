package proc

import (
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// A tree reads the files of processes and groups.
type tree struct {
	sysfile.Reader
	names         *userNames
	hertz         uint64
	pageSize      uint64
	request       uint64        // the number of the present request
	current       *pmda.Request // that request; nil in a sampler
	otherUser     bool          // the client may not see what only the agent's user may see
	impersonating bool          // the thread acts as the client
	effectiveUID  int           // the client's while impersonating, else the agent's
	self          int32         // the process id of the agent, 0 if the tree is not this host's

	// delays returns those of a thread, see readDelays. It is nil if the tree is not
	// this host's, because its process ids are not those of the kernel.
	delays func(tid int32) (d [numDelays]uint64, ok bool)

	hugePageKiB uint64 // see hugeKiB; 0 if it was not read

	maxFDs     int    // maxFDs, except in tests
	gpuRequest uint64 // number of the request that has set amdGPU
	amdGPU     bool
	fds        []int32      // of the last process that readGPU has read
	nodes      []nodeMemory // of the last process that readNUMA has read
}

// ended is called for each item of what may be long. It returns the error of
// Request.Err.
func (t *tree) ended() error {
	if t.current == nil {
		return nil
	}
	return t.current.Err()
}

// hidesPrivate reports whether the client may not see the private files of p,
// although the kernel would show them to the agent.
func (t *tree) hidesPrivate(p *process) bool {
	switch {
	case t.otherUser:
		return true
	case !t.impersonating || t.self == 0:
		return false
	case p.id == t.self:
		return true // the kernel shows a process to all its threads, whatever their user
	}
	return p.threads && t.Path("/proc/").Num(t.self).Str("/task/").Num(p.id).Exists()
}

// msecs returns ticks of the kernel in milliseconds, without overflow.
func (t *tree) msecs(ticks uint64) uint64 { return ticks/t.hertz*1000 + ticks%t.hertz*1000/t.hertz }
