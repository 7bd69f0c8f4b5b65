//go:build !(aix || darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package mmv

import (
	"errors"
	"os"
)

func newMapping(*os.File, int) (*mapping, error) { return nil, errors.ErrUnsupported }
