package main

import (
	"fmt"
	"os"
	"os/exec"
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
			path, err := findProgram(exporterName, os.Executable, exec.LookPath)
			if err != nil {
				return err
			}
			return fmt.Errorf("%s: %w", path, syscall.Exec(path, append([]string{exporterName}, args...), os.Environ()))
		},
	}
}
