package trace

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gopcp/pmcd/internal/tracepdu"
	"github.com/gopcp/pmcd/pdu"
)

// portVar is the environment variable with the port, for the agent and for its clients.
const portVar = "PCP_TRACE_PORT"

// Limits of options.
const (
	maxPeriod  = 366 * 24 * time.Hour
	maxBuckets = 1000
)

// portFromEnv returns the port in PCP_TRACE_PORT, 0 if it is not set. It is an error if the
// variable has no port.
func portFromEnv() (int, error) {
	v := os.Getenv(portVar)
	if v == "" {
		return 0, nil
	}
	port, err := parsePort(v)
	if err != nil {
		return 0, fmt.Errorf("%s=%s in environment is ignored: %w", portVar, v, err)
	}
	return port, nil
}

func parsePort(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 65535 {
		return 0, fmt.Errorf("%s is not a port number, 1 to 65535", s)
	}
	return n, nil
}

func parseBuckets(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxBuckets {
		return 0, fmt.Errorf("-N %s is not a number of buckets, 1 to %d", s, maxBuckets)
	}
	return n, nil
}

// parsePeriod parses an interval as PCPIntro(1) describes it: "30 seconds", "1min 30sec".
// A number without a unit is seconds. Only whole seconds count.
func parsePeriod(s string) (time.Duration, error) {
	bad := fmt.Errorf("-T %s is not an interval of 1 second to 366 days", s)
	var sum float64 // seconds
	rest := strings.TrimSpace(s)
	if rest == "" {
		return 0, bad
	}
	for rest != "" {
		i := 0
		for i < len(rest) && (rest[i] >= '0' && rest[i] <= '9' || rest[i] == '.') {
			i++
		}
		n, err := strconv.ParseFloat(rest[:i], 64)
		if err != nil {
			return 0, bad
		}
		rest = strings.TrimLeft(rest[i:], " \t")
		i = 0
		for i < len(rest) && (rest[i] >= 'a' && rest[i] <= 'z' || rest[i] >= 'A' && rest[i] <= 'Z') {
			i++
		}
		unit, ok := intervalUnits[strings.ToLower(rest[:i])]
		if !ok {
			return 0, bad
		}
		sum += n * unit
		rest = strings.TrimLeft(rest[i:], " \t")
	}
	// 1.1 hours are 3960 seconds, although the product is a little less.
	period := math.Floor(sum + 1e-6)
	if period < 1 || period > maxPeriod.Seconds() {
		return 0, bad
	}
	return time.Duration(period) * time.Second, nil
}

// intervalUnits are the units of intervals in seconds (pmParseInterval(3)).
var intervalUnits = map[string]float64{
	"us": 1e-6, "usec": 1e-6, "usecs": 1e-6, "microsecond": 1e-6, "microseconds": 1e-6,
	"ms": 1e-3, "msec": 1e-3, "msecs": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3,
	"": 1, "s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1,
	"m": 60, "min": 60, "mins": 60, "minute": 60, "minutes": 60,
	"h": 3600, "hour": 3600, "hours": 3600,
	"d": 86400, "day": 86400, "days": 86400,
}

// parseUnits parses six numbers with commas: the dimensions of space, time and count, and
// their scales.
func parseUnits(s string) (pdu.Units, error) {
	var n [6]int
	words := strings.Split(s, ",")
	if len(words) != len(n) {
		return 0, fmt.Errorf("%s is not six numbers with commas", s)
	}
	limits := [6][2]int{{-8, 7}, {-8, 7}, {-8, 7}, {0, 6}, {0, 5}, {-8, 7}}
	for i, w := range words {
		v, err := strconv.Atoi(strings.TrimSpace(w))
		if err != nil || v < limits[i][0] || v > limits[i][1] {
			return 0, fmt.Errorf("%s: %q is not a number from %d to %d", s, w, limits[i][0], limits[i][1])
		}
		n[i] = v
	}
	return pdu.NewUnits(n[0], n[1], n[2], n[3], n[4], n[5]), nil
}

// An accessRule is an argument of -A.
type accessRule struct {
	allow bool
	host  string
	max   int // connections; 0 is no limit
}

// parseAccess parses allow:HOST:MAX or disallow:HOST.
func parseAccess(s string) (r accessRule, err error) {
	bad := fmt.Errorf("-A %s is not allow:HOST:MAX or disallow:HOST", s)
	word, host, _ := strings.Cut(s, ":")
	switch {
	case strings.EqualFold(word, "allow"):
		r.allow = true
		i := strings.LastIndexByte(host, ':')
		if i < 0 {
			return r, bad
		}
		if r.max, err = strconv.Atoi(host[i+1:]); err != nil || r.max < 0 {
			return r, fmt.Errorf("-A %s: %q is not a number of connections", s, host[i+1:])
		}
		host = host[:i]
	case !strings.EqualFold(word, "disallow"):
		return r, bad
	case strings.Count(host, ":") == 1: // pmdatrace ignores what follows the host
		host, _, _ = strings.Cut(host, ":")
	}
	if host == "" || strings.Trim(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:*") != "" {
		return r, bad
	}
	r.host = host
	return r, nil
}

// setDefaults completes the options.
func (o *Options) setDefaults() error {
	o.Period = cmp.Or(o.Period, time.Minute)
	o.Buckets = cmp.Or(o.Buckets, 5)
	if o.Period < time.Second || o.Period > maxPeriod || o.Period%time.Second != 0 {
		return errors.New("the period is not a whole number of seconds")
	}
	if o.Buckets < 1 || o.Buckets > maxBuckets {
		return fmt.Errorf("%d is not a number of buckets, 1 to %d", o.Buckets, maxBuckets)
	}
	if o.Port == 0 {
		port, err := portFromEnv()
		if err != nil {
			o.Log.Warn("{agent}: no port from the environment: {error}", "error", err)
		}
		o.Port = cmp.Or(port, tracepdu.Port)
	}
	return nil
}
