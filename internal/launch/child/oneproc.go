package child

import (
	"os"
	"strings"
)

// oneProcs is the environment variable that lets the Go runtime use one CPU at a time. The
// zero tells it from a value that an admin has set.
const (
	procsVar = "GOMAXPROCS"
	oneProcs = "01"
)

// OneProc returns the environment for a process of this program that does one thing at a
// time, such as an agent: its Go runtime uses one CPU at a time. Then it has 0.3 MB less
// memory of its own, because the runtime keeps free memory of each size for each CPU that it
// uses. A value that an admin has set remains.
func OneProc() []string {
	env := os.Environ()
	for _, v := range env {
		if strings.HasPrefix(v, procsVar+"=") {
			return env
		}
	}
	return append(env, procsVar+"="+oneProcs)
}

// NotForChildren removes what OneProc has added from the environment of this process, so that
// children which are other programs do not inherit it.
func NotForChildren() {
	if os.Getenv(procsVar) == oneProcs {
		os.Unsetenv(procsVar)
	}
}
