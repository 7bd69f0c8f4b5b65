package reload

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A burst of events is one, when it is over or has taken long enough.
func TestQuiet(t *testing.T) {
	const step = watchQuiet / 2
	for _, tt := range []struct {
		name   string
		events int // one each step
		want   time.Duration
	}{
		{"one", 1, watchQuiet},
		{"some", 5, 4*step + watchQuiet},
		{"no end of them", 1000, watchMost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				events, errs := make(chan fsnotify.Event), make(chan error)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					for i := range tt.events {
						if i > 0 {
							time.Sleep(step)
						}
						select {
						case events <- fsnotify.Event{}:
						case <-ctx.Done():
							return
						}
					}
				}()
				began := time.Now()
				quiet(ctx, events, errs)
				if took := time.Since(began); took != tt.want {
					t.Errorf("took %v, want %v", took, tt.want)
				}
			})
		})
	}
	t.Run("events are lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			errs := make(chan error, 1)
			errs <- errors.New("overflow")
			began := time.Now()
			quiet(t.Context(), make(chan fsnotify.Event), errs)
			if took := time.Since(began); took != watchQuiet {
				t.Errorf("took %v, want %v", took, watchQuiet)
			}
		})
	})
	t.Run("the end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			quiet(ctx, make(chan fsnotify.Event), make(chan error))
		})
	})
}
