package cli

import (
	"path/filepath"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/rundir"
)

// PlaceFiles sets the paths of the socket and the log, unless options or the environment
// (PCP_RUN_DIR, PCP_LOG_DIR) have set them. If no directory can be used, there is no
// socket, and messages go to the standard error output.
func (opt *Options) PlaceFiles(root string, uid int, getenv func(string) string) {
	if opt.Socket == "" {
		dir, err := rundir.Find(filepath.Join(root, "run/pcp"), uid, getenv)
		if err != nil {
			opt.Mistake("no Unix domain socket: {error}", "error", err)
		} else {
			opt.Socket = filepath.Join(dir, "pmcd.socket")
		}
	}
	if dir := getenv("PCP_LOG_DIR"); opt.Log == "" && dir != "" {
		opt.Log = filepath.Join(dir, "pmcd.log")
	}
	if opt.Log == "" {
		dir, err := rundir.Find(filepath.Join(root, "var/log/pcp"), uid, getenv)
		if err != nil {
			opt.Warn("no log file: {error}", "error", err)
			opt.Log = "-"
		} else {
			opt.Log = filepath.Join(dir, "pmcd.log")
		}
	}
}

// PIDFile returns the path of the file with the process id, for scripts and
// service managers; "" if no directory is known for it.
func (opt *Options) PIDFile(getenv func(string) string) string {
	const name = "pmcd.pid"
	if dir := getenv("PCP_RUN_DIR"); dir != "" {
		return filepath.Join(dir, name)
	}
	if opt.Embedded && opt.Socket != "" {
		return filepath.Join(filepath.Dir(opt.Socket), name)
	}
	return ""
}

// HostPaths returns the variables of the environment that built-in agents need if
// PMCD_HOST_ROOT names the directory that has the proc and sys of the host, as in a
// container. A variable that is set stays as it is.
func HostPaths(getenv func(string) string) map[string]string {
	root := getenv("PMCD_HOST_ROOT")
	if root == "" {
		return nil
	}
	paths := make(map[string]string)
	for name, path := range map[string]string{
		"LINUX_STATSPATH":   "",
		"PROC_STATSPATH":    "",
		"XFS_STATSPATH":     "",
		"JBD2_STATSPATH":    "",
		"CIFS_STATSPATH":    "",
		"KVM_DEBUGFS_PATH":  "sys/kernel/debug",
		"KVM_TRACEFS_PATH":  "sys/kernel/debug/tracing",
		"KVM_LOCKDOWN_PATH": "sys/kernel/security/lockdown",
		// In proc/self are the mounts of the container.
		"NFSCLIENT_MOUNTSTATS_PATH": "proc/1/mountstats",
	} {
		if getenv(name) == "" {
			paths[name] = filepath.Join(root, path)
		}
	}
	return paths
}
