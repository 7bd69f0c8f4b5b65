package agents_test

import (
	"context"
	"testing"

	"github.com/gopcp/pmcd/agents"
)

// Checkpoint returns the error of the context.
func TestCheckpoint(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := agents.Checkpoint(ctx); err != nil {
		t.Error(err)
	}
	cancel()
	if err := agents.Checkpoint(ctx); err != context.Canceled {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
