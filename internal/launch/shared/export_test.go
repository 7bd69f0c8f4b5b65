package shared

import "time"

// SetTimes sets how long a process may take to start an agent, and to kill one.
func (h *Host) SetTimes(start, stop time.Duration) { h.startTime, h.stopTime = start, stop }
