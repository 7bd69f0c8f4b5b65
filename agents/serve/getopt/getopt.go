// Package getopt parses command lines as getopt_long(3) does if options precede
// arguments: short options may be joined (-ab, -cVALUE), and a long option may be
// abbreviated if the abbreviation is unique. pmcd and the PMDAs of package serve
// use it to accept the same command lines as PCP's programs.
package getopt

import (
	"fmt"
	"strings"
)

// An Option is a command line option.
type Option struct {
	Short byte   // the letter; 0 if there is none
	Long  string // the long name; "" if there is none
	Arg   string // name of the argument in the usage message; "" if the option has none
	Text  string // description in the usage message; if it is "", the message omits the option
	Whole bool   // Long has no abbreviations, so that those of other options stay unique

	// Set is called each time that the option is used. arg is "" if the option
	// has no argument. Parse returns the error.
	Set func(arg string) error
}

// An Error is an error of the command line itself, in the words of glibc: an option
// that does not exist, or one whose argument is missing or not allowed.
type Error string

func (e Error) Error() string { return string(e) }

func errorf(format string, args ...any) error { return Error(fmt.Sprintf(format, args...)) }

// Parse parses args, calls the Set functions of the options, and returns the
// arguments that follow the options. It continues after errors and returns all of
// them: those of Set, and for errors of the command line an [Error].
func Parse(options []Option, args []string) (rest []string, errs []error) {
	for len(args) > 0 {
		word := args[0]
		if len(word) < 2 || word[0] != '-' {
			break
		}
		args = args[1:]
		var err error
		switch {
		case word == "--":
			return args, errs
		case strings.HasPrefix(word, "--"):
			args, err = parseLong(options, word, args)
			if err != nil {
				errs = append(errs, err)
			}
		default:
			for cluster := word[1:]; cluster != ""; {
				cluster, args, err = parseShort(options, cluster, args)
				if err != nil {
					errs = append(errs, err)
				}
			}
		}
	}
	return args, errs
}

// parseShort parses the first option of a cluster of letters. The argument is the
// rest of the cluster or the next one of args. It returns what is left of both.
func parseShort(options []Option, cluster string, args []string) (string, []string, error) {
	c, cluster := cluster[0], cluster[1:]
	for _, o := range options {
		switch {
		case o.Short != c || c == 0:
			continue
		case o.Arg == "":
			return cluster, args, o.Set("")
		case cluster != "":
			return "", args, o.Set(cluster)
		case len(args) > 0:
			return "", args[1:], o.Set(args[0])
		}
		return "", args, errorf("option requires an argument -- '%c'", c)
	}
	return cluster, args, errorf("invalid option -- '%c'", c)
}

// parseLong parses --name, --name=value or --name value, and returns the rest of
// args. A name may be abbreviated if that is unique.
func parseLong(options []Option, word string, args []string) ([]string, error) {
	name, value, given := strings.Cut(word[2:], "=")
	var found []Option
	for _, o := range options {
		if o.Long == name && name != "" {
			found = []Option{o}
			break
		}
		if o.Long != "" && !o.Whole && strings.HasPrefix(o.Long, name) {
			found = append(found, o)
		}
	}
	switch {
	case len(found) == 0:
		return args, errorf("unrecognized option '%s'", word)
	case len(found) > 1:
		var s strings.Builder
		for _, o := range found {
			fmt.Fprintf(&s, " '--%s'", o.Long)
		}
		return args, errorf("option '%s' is ambiguous; possibilities:%s", word, &s)
	}
	o := found[0]
	switch {
	case o.Arg == "" && given:
		return args, errorf("option '--%s' doesn't allow an argument", o.Long)
	case o.Arg == "" || given:
		return args, o.Set(value)
	case len(args) == 0:
		return args, errorf("option '--%s' requires an argument", o.Long)
	}
	return args[1:], o.Set(args[0])
}

// Usage returns the usage message in the layout of pmUsageMessage(3). An Option
// without Short and Long is a heading.
func Usage(name, arguments string, options []Option) string {
	if arguments == "" {
		arguments = "[options]"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "Usage: %s %s\n", name, arguments)
	for _, o := range options {
		if o.Text == "" {
			continue
		}
		if o.Short == 0 && o.Long == "" {
			fmt.Fprintf(&s, "\n%s:\n", o.Text)
			continue
		}
		var forms []string
		if o.Short != 0 {
			forms = append(forms, join("-"+string(o.Short), " ", o.Arg))
		}
		if o.Long != "" {
			forms = append(forms, join("--"+o.Long, "=", o.Arg))
		}
		form := "  " + strings.Join(forms, ", ")
		if len(form) < textColumn {
			fmt.Fprintf(&s, "%-*s%s\n", textColumn, form, o.Text)
		} else {
			fmt.Fprintf(&s, "%s\n%*s%s\n", form, textColumn, "", o.Text)
		}
	}
	return s.String()
}

const textColumn = 24 // column of the texts in a usage message

// join returns an option with its argument, if it has one.
func join(name, sep, arg string) string {
	if arg == "" {
		return name
	}
	return name + sep + arg
}
