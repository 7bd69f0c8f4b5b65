package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Values of options that pflag does not have.

// An interval is the value of an option: as PCP has it, a number of seconds or one with a unit.
type interval time.Duration

func (i *interval) String() string { return time.Duration(*i).String() }
func (i *interval) Type() string   { return "time" }

func (i *interval) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz ")
		units := map[string]time.Duration{"": time.Second, "msec": time.Millisecond, "sec": time.Second, "min": time.Minute, "hour": time.Hour}
		unit, ok := units[strings.TrimSuffix(strings.TrimSpace(s[len(number):]), "s")]
		f, err := strconv.ParseFloat(number, 64)
		if err != nil || !ok || !(f*float64(unit) < float64(time.Hour)*1e5) {
			return errors.New("a time such as 5s, 500ms or 2min is required")
		}
		d = time.Duration(f * float64(unit))
	}
	if d < 10*time.Millisecond {
		return errors.New("at least 10ms are required")
	}
	*i = interval(d)
	return nil
}

// A part is the value of an option: a number from 0 to 1, or in percent.
type part float64

func (p *part) String() string { return fmt.Sprint(float64(*p)) }
func (p *part) Type() string   { return "part" }

func (p *part) Set(s string) error {
	number, percent := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(number, 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f <= 1) {
		return errors.New("a number from 0 to 1, or from 0% to 100%, is required")
	}
	*p = part(f)
	return nil
}

// A seconds is the value of an option: a positive number of seconds.
type seconds int32

func (s *seconds) String() string { return fmt.Sprint(int32(*s)) }
func (s *seconds) Type() string   { return "seconds" }

func (s *seconds) Set(v string) error {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 1 {
		return errors.New("a positive number of seconds is required")
	}
	*s = seconds(n)
	return nil
}
