package trace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gopcp/pmcd/internal/tracepdu"
)

// Options configure a Client. Fields that are zero have the value of an environment
// variable, see the package comment, or the default.
type Options struct {
	// Host is the host of the agent, by default this one: it is looked up by its own
	// name, as libpcp_trace does, and if that cannot be reached, it is localhost.
	Host string
	Port int // of the agent; the default is 4323

	Async    bool // calls never block: see the package comment
	Disabled bool // calls do nothing

	ConnectTimeout time.Duration // for a connection to one address; the default is 3 seconds
	RequestTimeout time.Duration // for the agent's answer; the default is 10 seconds

	// Reconnect has the delays before the Client connects again. The last one is for
	// all further attempts. The default is 5, 10, 20, 40 and 80 seconds.
	Reconnect []time.Duration

	// Queue is how many values an asynchronous Client keeps that have not been sent;
	// the default is 1024.
	Queue int

	// Dial, if it is not nil, connects to the agent in place of a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// FromEnv returns the Options in the environment. An error names variables that have a
// wrong value, which is ignored: the Options are valid.
func FromEnv() (Options, error) {
	var o Options
	var errs []error
	get := func(name string, set func(v string) bool) {
		if v := os.Getenv(name); v != "" && !set(v) {
			errs = append(errs, fmt.Errorf("%w: %s=%s", ErrEnvironment, name, v))
		}
	}
	o.Host = os.Getenv("PCP_TRACE_HOST")
	get("PCP_TRACE_PORT", func(v string) bool {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 65535 {
			return false
		}
		o.Port = n
		return true
	})
	get("PCP_TRACE_TIMEOUT", seconds(&o.ConnectTimeout))
	get("PCP_TRACE_REQTIMEOUT", seconds(&o.RequestTimeout))
	get("PCP_TRACE_RECONNECT", func(v string) bool {
		var list []time.Duration
		for word := range strings.SplitSeq(v, ",") {
			var d time.Duration
			if !seconds(&d)(strings.TrimSpace(word)) {
				return false
			}
			list = append(list, d)
		}
		o.Reconnect = list
		return true
	})
	_, o.Disabled = os.LookupEnv("PCP_TRACE_NOAGENT")
	return o, errors.Join(errs...)
}

// seconds returns a function that sets *d to a number of seconds, which may have a fraction.
func seconds(d *time.Duration) func(v string) bool {
	return func(v string) bool {
		s, err := strconv.ParseFloat(v, 64)
		if err != nil || !(s > 0 && s <= 1e6) {
			return false
		}
		*d = time.Duration(s * float64(time.Second))
		return true
	}
}

// withDefaults returns o with values for the fields that are zero.
func (o Options) withDefaults() Options {
	env, _ := FromEnv() // a variable with a wrong value is like one that is not set
	if o.Host == "" {
		o.Host = env.Host
	}
	o.Disabled = o.Disabled || env.Disabled
	setDefault(&o.Port, env.Port, tracepdu.Port)
	setDefault(&o.ConnectTimeout, env.ConnectTimeout, 3*time.Second)
	setDefault(&o.RequestTimeout, env.RequestTimeout, 10*time.Second)
	setDefault(&o.Queue, 1024, 0)
	if len(o.Reconnect) == 0 {
		o.Reconnect = env.Reconnect
	}
	if len(o.Reconnect) == 0 {
		for d := 5 * time.Second; d <= 80*time.Second; d *= 2 {
			o.Reconnect = append(o.Reconnect, d)
		}
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	return o
}

// setDefault sets *v, if it is not positive, to the first of values that is.
func setDefault[T int | time.Duration](v *T, values ...T) {
	for _, value := range values {
		if *v <= 0 {
			*v = value
		}
	}
}

// addrs returns the addresses of the agent, in the order in which they are tried.
func (o *Options) addrs() []string {
	hosts := []string{o.Host}
	if o.Host == "" {
		hosts = []string{"localhost"}
		if name, err := os.Hostname(); err == nil {
			hosts = []string{name, "localhost"}
		}
	}
	for i, h := range hosts {
		hosts[i] = net.JoinHostPort(h, strconv.Itoa(o.Port))
	}
	return hosts
}
