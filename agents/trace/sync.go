package trace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gopcp/pmcd/internal/tracepdu"
)

// A synchronous is the part of a Client that waits for the agent. One call after another
// uses the connection.
type synchronous struct {
	sem  chan struct{} // has a value while a call uses the following
	link *link
	buf  []byte
}

func newSynchronous(l *link) *synchronous {
	return &synchronous{sem: make(chan struct{}, 1), link: l}
}

func (s *synchronous) send(ctx context.Context, d tracepdu.Data) error {
	select {
	case s.sem <- struct{}{}:
		defer func() { <-s.sem }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		if err := s.link.connect(ctx); err != nil {
			return err
		}
		used := s.link.used
		err := s.exchange(ctx, d)
		switch {
		case err == nil:
			s.link.worked()
			return nil
		case ctx.Err() != nil: // an ACK may still come
			s.link.close()
			return err
		}
		s.link.broken(err)
		// The agent may have been started again since the last value. What an old one
		// has counted is lost anyway.
		if !used || !errors.Is(err, ErrIPC) {
			return err
		}
		s.link.tryAgain()
	}
}

func (s *synchronous) exchange(ctx context.Context, d tracepdu.Data) error {
	d.Sync = true
	s.buf = tracepdu.AppendData(s.buf[:0], int32(os.Getpid()), d)
	if err := s.link.write(ctx, s.buf); err != nil {
		return err
	}
	n, err := s.link.ack(ctx, s.link.conn)
	switch {
	case err != nil:
		return err
	case n < 0:
		return Error(n)
	case n != int32(d.Kind):
		return fmt.Errorf("%w: ACK %d for a value of type %d", ErrIPC, n, d.Kind)
	}
	return nil
}

// close waits for a call in progress.
func (s *synchronous) close() error {
	s.sem <- struct{}{}
	defer func() { <-s.sem }()
	s.link.close()
	s.link.failed(ErrClosed) // for a call that waited for its turn
	s.link.retry = s.link.now().Add(1 << 62 * time.Nanosecond)
	return nil
}
