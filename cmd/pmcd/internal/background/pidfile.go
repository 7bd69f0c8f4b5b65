package background

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"

	"github.com/gopcp/pmcd/internal/safepath"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// WritePIDFile writes the process id and nothing else: scripts compare the content with
// the process that they find. It replaces what is there, because other users may have
// put a link there.
func WritePIDFile(path string) error {
	if path == "" {
		return errors.New("cannot write PID file: PCP_RUN_DIR is not set")
	}
	d, file, err := safepath.OpenParent(path)
	if err != nil {
		return fmt.Errorf("cannot write PID file: %w", err)
	}
	defer d.Close()
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot write PID file: %w", d.Err(err))
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return fmt.Errorf("cannot write PID file: %w", d.Err(err))
	}
	_, err = f.WriteString(strconv.Itoa(os.Getpid()))
	if err := errors.Join(err, f.Close()); err != nil {
		os.Remove(file)
		return fmt.Errorf("cannot write PID file %s: %w", path, err)
	}
	return nil
}

// RemovePIDFile removes the PID file if it is that of this process. PCP's script
// removes the file when it stops pmcd. If only root can write to the directory, the
// file stays and the log has a warning.
func RemovePIDFile(path string, log *slog.Logger) {
	if text, err := regular.ReadFile(path, 32); err != nil || string(text) != strconv.Itoa(os.Getpid()) {
		return
	}
	if err := safepath.Remove(path); err != nil {
		log.Warn("cannot remove PID file: {error}; a pmcd that root starts replaces it", "error", err, "path", path)
	}
}
