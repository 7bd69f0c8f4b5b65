package serve

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/gopcp/pmcd/agents/serve/getopt"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/debugopt"
)

// An Option is a command line option.
type Option = getopt.Option

// errHelp is the result of the option -?: the usage message is printed without
// an error.
var errHelp = errors.New("usage")

// settings are the result of parsing the command line.
type settings struct {
	Start
	log  string
	user string // of -U; "" without it

	transport byte   // letter of its option: p, i, 6 or u; 0 is a pipe, too
	address   string // port or path
}

// A usageError has the errors on a command line.
type usageError struct {
	errs []error
	text string // the usage message
}

func (u *usageError) Error() string { return errors.Join(u.errs...).Error() }

// settings parses the command line. Its error is a *usageError.
func (p *Program) settings(args []string) (*settings, error) {
	s := &settings{Start: Start{Domain: p.Domain, Help: p.Help}, log: cmp.Or(p.Log, "-")}
	options := s.options(p)
	rest, errs := getopt.Parse(options, args)
	s.Args = rest
	if len(errs) == 0 {
		var err error
		switch {
		case p.CheckArgs != nil:
			err = p.CheckArgs(rest)
		case len(rest) > 0:
			err = fmt.Errorf("unexpected argument '%s'", rest[0])
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return nil, &usageError{errs, getopt.Usage(p.Name, p.Usage, options)}
	}
	return s, nil
}

// options returns the options of p and those of PCP's agents, with their texts in
// the usage message (pmdaGetOptions(3), PMDAOPT_* in pmda.h). They have no text for
// -D.
func (s *settings) options(p *Program) []Option {
	options := []Option{
		{Text: "Options"},
		{Short: 'D', Long: "debug", Arg: "DBG", Set: s.setDebug},
		{Short: 'd', Long: "domain", Arg: "NUM", Text: "use domain (numeric) for metrics domain of PMDA", Set: s.setDomain},
	}
	if p.Help != "" {
		options = append(options, Option{Short: 'h', Long: "helpfile", Arg: "FILE",
			Text: "path to PMDA metrics help text file", Set: setString(&s.Help)})
	}
	options = append(options, []Option{
		{Short: 'l', Long: "log", Arg: "FILE", Text: "write log to FILE rather than using default log name", Set: setString(&s.log)},
		{Short: cmp.Or(p.UserOption, 'U'), Long: "username", Arg: "USER", Text: "run the PMDA using the named user account", Set: setString(&s.user)},
	}...)
	rest := []Option{
		{Short: '?', Long: "help", Text: "show this usage message and exit", Set: func(string) error { return errHelp }},
		{Text: "Exactly one of the following options may appear"},
		{Short: 'i', Long: "inet", Arg: "PORT", Text: "pmcd IPv4 connection service name or numeric port", Set: s.setTransport('i')},
		{Short: 'p', Long: "pipe", Text: "use a pipe for communication with pmcd", Set: s.setTransport('p')},
		{Short: 'u', Long: "unix", Arg: "FILE", Text: "use a unix domain socket for communication with pmcd", Set: s.setTransport('u')},
		{Short: '6', Long: "ipv6", Arg: "PORT", Text: "pmcd IPv6 connection service name or numeric port", Set: s.setTransport('6')},
	}
	replaced := func(o Option) bool {
		return o.Short != 0 && (o.Short == p.UserOption && o.Long != "username" ||
			slices.ContainsFunc(p.Options, func(q Option) bool { return q.Short == o.Short }))
	}
	options = append(slices.DeleteFunc(options, replaced), p.Options...)
	return append(options, slices.DeleteFunc(rest, replaced)...)
}

// setString returns a function that sets *v.
func setString(v *string) func(string) error {
	return func(arg string) error {
		*v = arg
		return nil
	}
}

func (s *settings) setDomain(arg string) error {
	n, err := strconv.Atoi(arg)
	switch {
	case err == nil && n >= 0 && n <= pdu.MaxDomain:
		s.Domain = n
		return nil
	case err == nil || errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("-d %s is not a domain number, 0 to %d", arg, pdu.MaxDomain)
	}
	return errors.New("-d requires numeric domain number")
}

// setDebug adds the debug options of -D (pmdbg(1)). It accepts any number, too,
// because -D once had a number as its argument.
func (s *settings) setDebug(arg string) error {
	names, err := debugopt.Parse(arg)
	if _, nerr := strconv.Atoi(arg); nerr == nil {
		names, err = []string{arg}, nil
	}
	if err != nil {
		return fmt.Errorf("unrecognized debug options specification (%s)", arg)
	}
	s.Debug = append(s.Debug, names...)
	slices.Sort(s.Debug)
	s.Debug = slices.Compact(s.Debug)
	return nil
}

// setTransport returns the Set function of an option that selects the transport.
// Only one of these options is allowed.
func (s *settings) setTransport(letter byte) func(string) error {
	return func(arg string) error {
		if s.transport != 0 && s.transport != letter {
			return fmt.Errorf("-%c option clashes with -%c option", letter, s.transport)
		}
		s.transport, s.address = letter, arg
		return nil
	}
}
