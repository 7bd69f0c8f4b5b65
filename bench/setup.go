package main

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"
)

// A setup is the configuration of a daemon.
type setup struct {
	agents   string        // benchAgents and so on
	gen      int           // number of generated names
	delay    time.Duration // of the replies of the slow agent; 0 is no such agent
	composed bool          // agent linux shows composedHost
	listen   string        // an address besides 127.0.0.1; "" is none
	notify   string        // the socket of a service manager; "" is none
	tls      string        // the kind of the key of its certificate; "" is no TLS
	logins   bool          // it has a database of passwords for SASL
	on       population    // of the host
}

// Sets of agents.
const (
	benchAgents  = ""       // pmcd's own, and three on pipes: simple, sample and linux
	stockAgents  = "stock"  // those of the installed pmcd.conf
	kernelAgents = "kernel" // linux: built in here, the PMDA on a pipe for C pmcd
	attackAgents = "attack" // the same, and simple and sample on pipes
	hostAgents   = "host"   // linux and proc, built in here
	ownAgents    = "own"    // those of the configuration that each daemon is installed with
)

// never is a delay longer than any test.
const never = time.Hour

// benchMetrics are 20 metrics of the three agents on pipes, all with values.
var benchMetrics = []string{
	"simple.numfetch", "simple.color", "simple.time.user", "simple.time.sys",
	"sample.long.one", "sample.long.ten", "sample.long.hundred", "sample.long.million",
	"sample.seconds", "sample.milliseconds", "sample.bin", "sample.colour",
	"hinv.ncpu", "hinv.pagesize", "kernel.all.load", "kernel.all.hz",
	"kernel.uname.release", "kernel.uname.sysname", "mem.physmem", "mem.util.free",
}

// metrics returns metrics that have values when all agents of the setup are ready.
func (s setup) metrics() []string {
	switch s.agents {
	case stockAgents, ownAgents:
		return []string{"pmcd.agent.status", "kernel.all.load", "mem.util.free", "proc.nprocs"}
	case kernelAgents:
		return kernelMetrics
	case hostAgents:
		return []string{"kernel.all.load", "proc.nprocs"}
	case attackAgents:
		return []string{"pmcd.numclients", "kernel.all.load", "sample.long.one"}
	}
	return benchMetrics
}

// conf returns the text of pmcd.conf.
func (s setup) conf(ours bool) (string, error) {
	switch file := stockConf; s.agents {
	case ownAgents:
		if ours {
			file = "etc/pmcd.conf"
		}
		fallthrough
	case stockAgents:
		text, err := os.ReadFile(file)
		return string(text), err
	}
	lines := []string{"pmcd 2 dso pmcd_init " + pmdaDir + "/pmcd/pmda_pmcd.so"}
	linux := fmt.Sprintf("linux %d pipe binary %s/linux/pmdalinux", domainLinux, pmdaDir)
	if s.agents != benchAgents && ours {
		linux = fmt.Sprintf("linux %d dso linux_init /nonexistent/pmda_linux.so", domainLinux)
	}
	lines = append(lines, linux)
	if s.agents == hostAgents {
		proc := fmt.Sprintf("proc %d pipe binary %s/proc/pmdaproc -d %[1]d", domainProc, pmdaDir)
		if ours {
			proc = fmt.Sprintf("proc %d dso proc_init /nonexistent/pmda_proc.so", domainProc)
		}
		lines = append(lines, proc)
	} else if s.agents != kernelAgents {
		simple, err := filepath.Abs(".peers/pmdasimple")
		if err != nil {
			return "", err
		}
		// These agents become user pcp, which needs root.
		as := ""
		if os.Geteuid() != 0 {
			u, err := user.Current()
			if err != nil {
				return "", err
			}
			as = " -U " + u.Username
		}
		lines = append(lines,
			fmt.Sprintf("simple %d pipe binary %s -d %[1]d", domainSimple, simple)+as,
			fmt.Sprintf("sample %d pipe binary %s/sample/pmdasample -d %[1]d", domainSample, pmdaDir)+as)
	}
	if s.delay > 0 {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		lines = append(lines, fmt.Sprintf("slow %d pipe binary %s %s %v", domainSlow, self, slowArg, s.delay))
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// mode returns the option for the foreground, and the user that the daemon becomes. As a
// service, this pmcd becomes user pcp. C pmcd does so only in the background, where its
// process would not be a child of this one. Its memory is the same in both cases.
func (s setup) mode(ours bool) (foreground, user string) {
	foreground, user = "-f", "root"
	if ours && (s.notify != "" || s.agents == ownAgents) {
		foreground = "-F"
	}
	if s.agents == ownAgents && os.Geteuid() == 0 {
		user = "pcp"
	}
	return foreground, user
}

// env returns variables of the environment of a daemon with the directory dir.
func (s setup) env(dir string) (env []string) {
	if s.tls != "" {
		env = append(env, "PCP_TLSCONF_PATH="+filepath.Join(dir, "tls.conf"))
	}
	if s.agents == ownAgents {
		env = append(env, "PMCD_ROOT_AGENT=1") // its pmdaroot has a socket below PCP_VAR_DIR
	}
	if s.logins {
		env = append(env, "PCP_SASL2_CONFIG_PATH="+filepath.Join(dir, "sasl2"))
	}
	if s.listen == "" {
		env = append(env, "PMCD_LOCAL=1") // loopback addresses only
	}
	if s.composed {
		env = append(env, "LINUX_STATSPATH="+composedHost(filepath.Dir(dir)))
	}
	if s.notify != "" {
		env = append(env, "NOTIFY_SOCKET="+s.notify, fmt.Sprint("WATCHDOG_USEC=", watchdog.Microseconds()))
	}
	return env
}

// writeSecurity writes the configuration of TLS and SASL into dir.
func (s setup) writeSecurity(dir string) error {
	if s.tls != "" {
		all, err := certificates()
		if err == nil {
			err = all[s.tls].write(dir)
		}
		if err != nil {
			return err
		}
	}
	if !s.logins {
		return nil
	}
	return sh(`echo secret | saslpasswd2 -c -p -a pmcd -f $0/sasldb2 root && mkdir $0/sasl2 &&
		printf 'mech_list: plain\nsasldb_path: %s/sasldb2\n' $0 >$0/sasl2/pmcd.conf`, dir)
}
