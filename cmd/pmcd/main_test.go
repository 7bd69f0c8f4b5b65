package main

import (
	"os"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
)

func TestMain(m *testing.M) {
	pmcdtest.Main(m, func() {
		if every, err := time.ParseDuration(os.Getenv(cpusEveryVar)); err == nil {
			cpusEvery = every
		}
		main()
	})
}
