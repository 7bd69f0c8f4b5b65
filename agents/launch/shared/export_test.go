package shared

import "time"

// SetStartTime sets how long a process may take to start an agent.
func (h *Host) SetStartTime(d time.Duration) { h.startTime = d }
