// Package saslhelper starts the SASL helper, the process that uses libsasl2 for pmcd.
//
// The helper is another process of this program. A program that imports the package can be
// a helper: a constructor in C takes over before the Go runtime starts, so that the process
// has one thread and can fork. That requires cgo and glibc. libsasl2 is not needed to build
// the program; the helper loads it with dlopen(3).
//
// The helper has the user and the groups of the process that starts it, no new privileges
// (PR_SET_NO_NEW_PRIVS), memory that other processes of the user cannot read
// (PR_SET_DUMPABLE), no core dumps, and no descriptor but its socket and /dev/null. It ends
// when the other end of the socket is closed. Package daemon/internal/sasl describes what is
// sent on the socket.
package saslhelper

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/launch/child"
)

// Options say how the helper is started. The zero value is that of pmcd.
type Options struct {
	// Libraries are names or paths of libsasl2. The first that exists is used. The default
	// is DefaultLibraries.
	Libraries []string
	// Env is the environment of the helper; see Environ.
	Env []string
	// Credential is the user that the helper runs as; nil is the user of the caller.
	Credential *syscall.Credential
	// Starter starts the process; it may be nil.
	Starter *child.Starter
}

// DefaultLibraries returns the names of libsasl2: as on most systems, and as on Debian.
func DefaultLibraries() []string { return []string{"libsasl2.so.3", "libsasl2.so.2"} }

// Environ returns an environment for the helper: the variables that libsasl2, its plugins and
// the dynamic linker use, and no others. PCP's names for the paths of libsasl2 come before
// its own.
func Environ(getenv func(string) string) (env []string) {
	for _, v := range []struct{ name, pcp string }{
		{"SASL_CONF_PATH", "PCP_SASL2_CONFIG_PATH"},
		{"SASL_PATH", "PCP_SASL2_PLUGIN_PATH"},
		{"KRB5_CONFIG", ""}, {"KRB5_KTNAME", ""}, {"KRB5_TRACE", ""}, // Kerberos
		{"LDAPCONF", ""}, {"LDAPRC", ""}, // plugin ldapdb
		{"LD_LIBRARY_PATH", ""},
		{"TZ", ""},
	} {
		value := getenv(v.name)
		if v.pcp != "" && getenv(v.pcp) != "" {
			value = getenv(v.pcp)
		}
		if value != "" {
			env = append(env, v.name+"="+value)
		}
	}
	return env
}

// ErrUnsupported is the error of Start in a program that cannot be a helper.
var ErrUnsupported = errors.New("this pmcd was built without cgo or glibc and cannot load libsasl2")

// callLimit is how long a call of the library may take until the kernel ends the process of
// the login. pmcd ends it earlier; this is for a pmcd that is stopped or hangs.
const callLimit = time.Minute

// Start starts the helper. Its end of the socket is sock, which the caller closes. If probe is
// set the helper finds out whether it can load libsasl2, says so on the socket, and ends.
func Start(opt Options, sock *os.File, probe bool) (*child.Process, error) {
	if !Supported {
		return nil, ErrUnsupported
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	mode, libs := "serve", opt.Libraries
	if probe {
		mode = "probe"
	}
	if libs == nil {
		libs = DefaultLibraries()
	}
	return opt.Starter.Start(child.Spec{
		// Not os.Executable: an update may have replaced or removed the file.
		Path:       "/proc/self/exe",
		Argv:       append([]string{"pmcd-sasl", mode, strconv.Itoa(int(callLimit.Seconds()))}, libs...),
		Stdin:      sock,
		Stderr:     null,
		Env:        append([]string{}, opt.Env...), // not nil
		Credential: opt.Credential,
	})
}
