package agents_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gopcp/pmcd/agents"
)

// Checkpoint calls the function of the context, the innermost if there are several, and
// returns the error that the context has then. When the context has ended it calls nothing.
func TestCheckpoint(t *testing.T) {
	if err := agents.Checkpoint(t.Context()); err != nil {
		t.Errorf("without a function: %v", err)
	}
	reason := errors.New("the client has gone")
	inner, outer := 0, 0
	ctx, cancel := context.WithCancelCause(agents.WithCheckpoint(t.Context(), func() { outer++ }))
	ctx = agents.WithCheckpoint(ctx, func() {
		if inner++; inner == 2 {
			cancel(reason)
		}
	})
	for n, want := range []error{nil, context.Canceled, context.Canceled} {
		if err := agents.Checkpoint(ctx); err != want {
			t.Errorf("call %d: %v, want %v", n+1, err, want)
		}
	}
	if inner != 2 || outer != 0 {
		t.Errorf("%d calls of the function and %d of the outer one, want 2 and 0", inner, outer)
	}
}
