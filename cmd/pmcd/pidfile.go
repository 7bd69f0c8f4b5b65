package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"go.uber.org/zap"
)

// writePIDFile writes what scripts compare with the process that they find: the
// process id and nothing else. Other users may have put something in its place.
func writePIDFile(path string) error {
	if path == "" {
		return errors.New("cannot write PID file: PCP_RUN_DIR is not set")
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot write PID file: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return fmt.Errorf("cannot write PID file: %w", err)
	}
	_, err = f.WriteString(strconv.Itoa(os.Getpid()))
	if err := errors.Join(err, f.Close()); err != nil {
		os.Remove(path)
		return fmt.Errorf("cannot write PID file %s: %w", path, err)
	}
	return nil
}

// removePIDFile removes the file of this process. It may be gone: PCP's script
// removes it when it stops pmcd. The directory may be one that only root can
// change.
func removePIDFile(path string, log *zap.Logger) {
	if text, err := os.ReadFile(path); err != nil || string(text) != strconv.Itoa(os.Getpid()) {
		return
	}
	if err := os.Remove(path); err != nil {
		log.Warn("cannot remove PID file: " + err.Error())
	}
}
