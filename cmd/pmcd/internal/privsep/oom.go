package privsep

import (
	"os"
	"strconv"
	"strings"
)

const (
	oomFile = "/proc/self/oom_score_adj"
	// helperScore is the value for the root helper. If the kernel kills it, all agents
	// end, and it uses little memory. It is not -1000, which would exempt it.
	helperScore = -900
)

// protectFromOOM lowers to score the value by which the kernel chooses a process to kill
// when memory has run out. It returns a function that calls start while the value is what
// it was before: the children inherit it. If it cannot be lowered, which requires
// CAP_SYS_RESOURCE, protectFromOOM returns nil and changes nothing.
func protectFromOOM(score int) (around func(start func())) {
	was, err := os.ReadFile(oomFile)
	if err != nil {
		return nil
	}
	original := strings.TrimSpace(string(was))
	if n, err := strconv.Atoi(original); err != nil || n <= score || setOOMScore(strconv.Itoa(score)) != nil {
		return nil
	}
	// The child has the original value from its start, and so have its children.
	return func(start func()) {
		setOOMScore(original)
		defer setOOMScore(strconv.Itoa(score))
		start()
	}
}

func setOOMScore(text string) error { return os.WriteFile(oomFile, []byte(text), 0) }
