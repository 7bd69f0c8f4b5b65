package fuzztest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == agentName { // the test program is the agents, too
		os.Exit(runAgent(os.Args[1:]))
	}
	code := m.Run()
	peer.Finish()
	os.Exit(code)
}

// How long the requests and faults of an episode last.
const (
	shortEpisode = 10 * time.Second
	longEpisode  = 30 * time.Second
)

// TestFuzzDaemon runs one short episode, or episodes until PMCD_FUZZ_TIME is over or one
// fails.
func TestFuzzDaemon(t *testing.T) {
	testutil.NeedCapability(t, unix.CAP_SYS_PTRACE) // to count descriptors of pmcd, which cannot be traced
	seed := uint64(time.Now().UnixNano() / 1000)
	if s := os.Getenv("PMCD_FUZZ_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("PMCD_FUZZ_SEED: %v", err)
		}
		seed = n
	}
	each, total, long := shortEpisode, time.Duration(0), false
	if s := os.Getenv("PMCD_FUZZ_TIME"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("PMCD_FUZZ_TIME: %v", err)
		}
		each, total, long = longEpisode, d, true
	}
	exe, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for n := 0; !t.Failed() && (n == 0 || time.Since(begin) < total); n++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			newEpisode(t, exe, seed, long).run(each)
		})
		seed++
	}
}
