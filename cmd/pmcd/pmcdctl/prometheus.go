package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// exporterName is the program that "pmcdctl prometheus" starts. It is not part of pmcdctl
// because an HTTP server and its libraries are of no use to other commands.
const exporterName = "pmcd-prometheus"

// prometheusCommand is pmcdctl prometheus. All of its arguments are those of the exporter.
func prometheusCommand(code *int) *cobra.Command {
	return &cobra.Command{
		Use:                "prometheus [-h HOST] [--listen ADDR] [METRIC...]",
		Short:              "serve metrics to Prometheus",
		DisableFlagParsing: true,
		ValidArgsFunction:  new(clientFlags).completeNames(true), // of PMCD_HOST, or of this host
		RunE: func(_ *cobra.Command, args []string) error {
			*code = exitNone
			path, err := findExporter(os.Executable, exec.LookPath)
			if err != nil {
				return err
			}
			return fmt.Errorf("%s: %w", path, syscall.Exec(path, append([]string{exporterName}, args...), os.Environ()))
		},
	}
}

// findExporter returns the path of the exporter: in the directory of this program, in the
// libexec directory beside it, or in PATH.
func findExporter(executable func() (string, error), lookPath func(string) (string, error)) (string, error) {
	var tried []string
	if self, err := executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		bin := filepath.Dir(self)
		for _, dir := range []string{bin, filepath.Join(filepath.Dir(bin), "libexec", "pcp")} {
			path, err := lookPath(filepath.Join(dir, exporterName))
			if err == nil {
				return path, nil
			}
			if !errors.Is(err, os.ErrNotExist) {
				return "", err
			}
			tried = append(tried, dir)
		}
	}
	path, err := lookPath(exporterName)
	if err == nil {
		return path, nil
	}
	return "", fmt.Errorf("%s is not installed: it is neither in %q nor in PATH", exporterName, tried)
}
