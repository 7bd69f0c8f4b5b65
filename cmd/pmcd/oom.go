package main

import (
	"os"
	"strconv"
	"strings"
)

const (
	oomFile = "/proc/self/oom_score_adj"
	// helperScore is that of the root helper: its end costs all agents, and what
	// it takes of memory is small. It is not -1000, which is never.
	helperScore = -900
)

// protectFromOOM lowers to score the value by which the kernel chooses what to kill for
// want of memory, and returns a function that calls start with what it
// was, for the children. Where it cannot be lowered, which takes
// CAP_SYS_RESOURCE, all is left as it is.
func protectFromOOM(score int) (around func(start func())) {
	was, err := os.ReadFile(oomFile)
	if err != nil {
		return nil
	}
	original := strings.TrimSpace(string(was))
	if n, err := strconv.Atoi(original); err != nil || n <= score || setOOMScore(strconv.Itoa(score)) != nil {
		return nil
	}
	// The child has it from its first moment on, as have its own.
	return func(start func()) {
		setOOMScore(original)
		defer setOOMScore(strconv.Itoa(score))
		start()
	}
}

func setOOMScore(text string) error { return os.WriteFile(oomFile, []byte(text), 0) }
