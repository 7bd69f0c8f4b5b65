package session

// A session has a slot (package slots) while it handles a request, and none while it waits.

// wait calls f, which may wait. If the session has a slot, others may have it meanwhile.
func (s *session) wait(f func()) { s.cpu.Wait(f) }

// begin waits until the session may have a request in progress, unless it has one.
func (s *session) begin() {
	if s.begun {
		return
	}
	s.begun = true
	p, key := s.srv.inProgress, &s.client.Key
	if p.Start(&s.inProgress, 1, key) {
		return
	}
	s.stream.Compact() // there may be many that wait
	s.cpu.Release()
	s.srv.cfg.Limiter.Warn("progress "+s.client.Origin(), "client[{client}] {address}: {in_progress} of at most {in_progress_limit} requests in progress belong to its user or host; pmcd reads no more of theirs until some end",
		"client", s.client.Num, "address", s.client.Addr, "in_progress", p.UsedBy(key.Group), "in_progress_limit", p.Limit())
	<-s.inProgress.Begun()
}

// endProgress ends the request in progress, if there is one.
func (s *session) endProgress() {
	if s.begun {
		s.begun = false
		s.inProgress.End()
	}
}

// BeforeDecrypt implements conn.Session. What arrives in TLS has a cost before it is known
// whether there is a request in it.
func (s *session) BeforeWork() {
	if s.srv.slots.Busy() { // there may be many that wait
		s.stream.Compact()
	}
	s.cpu.Take()
}

// BeforeWait implements conn.Session. Nothing of the request is needed any more but the input
// and what is being written.
func (s *session) BeforeWait() {
	if s.current != nil {
		s.current.freeLarge()
	}
	s.endProgress()
	s.cpu.Release()
}
