package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// memoryUse is the resident memory of a process, in bytes.
type memoryUse struct {
	rss, anon int64 // now
	peak      int64 // of rss, since the start or since resetPeak
}

func memoryOf(pid int) (m memoryUse) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		kb, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		n, _ := strconv.ParseInt(kb, 10, 64)
		switch n <<= 10; name {
		case "VmRSS":
			m.rss = n
		case "RssAnon":
			m.anon = n
		case "VmHWM":
			m.peak = n
		}
	}
	return m
}

// resetPeak makes the kernel forget the peak of a process (proc_pid_clear_refs(5)).
func resetPeak(pid int) {
	os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// A memoryWatch follows the memory of a process.
type memoryWatch struct {
	over chan struct{}
	done sync.WaitGroup
	once sync.Once
	most memoryUse
}

func watchMemory(pid int) *memoryWatch {
	w := &memoryWatch{over: make(chan struct{})}
	w.done.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			now := memoryOf(pid)
			w.most = memoryUse{max(w.most.rss, now.rss), max(w.most.anon, now.anon), max(w.most.peak, now.peak)}
			select {
			case <-w.over:
				return
			case <-tick.C:
			}
		}
	})
	return w
}

// stop returns the most of each.
func (w *memoryWatch) stop() memoryUse {
	w.once.Do(func() { close(w.over) })
	w.done.Wait()
	return w.most
}

// pssOf returns the memory of a process, of which it has a share of what it shares with
// others, in bytes.
func pssOf(pid int) int64 { return smapsOf(pid, "Pss:") }

// pssAnonOf is pssOf without what is in files: the memory of its own.
func pssAnonOf(pid int) int64 { return smapsOf(pid, "Pss_Anon:") }

// smapsOf returns a sum over all mappings of a process, in bytes.
func smapsOf(pid int, name string) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			kb, _, _ := strings.Cut(strings.TrimSpace(value), " ")
			n, _ := strconv.ParseInt(kb, 10, 64)
			return n << 10
		}
	}
	return 0
}
