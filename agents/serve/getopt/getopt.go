// Package getopt reads command lines as getopt_long(3) does, options before
// arguments: they may be joined (-ab, -cVALUE), and long ones cut short as long
// as they are unique. pmcd and PMDAs have their options by it, so that they take
// what PCP's own do.
package getopt

import (
	"fmt"
	"strings"
)

// An Option is an option of the command line.
type Option struct {
	Short byte   // 0 is none
	Long  string // none is ""
	Arg   string // what the usage message calls its argument; "" is an option without one
	Text  string // in the usage message; an option without is not shown
	Whole bool   // Long may not be cut short: what others cut short stays unique

	// Set is told of each use. Its error is printed with the usage message.
	Set func(arg string) error
}

// Parse does what args ask for, as getopt_long(3) with options before
// arguments, and returns the arguments. It goes on after mistakes, and returns
// an error for each: what Set says, or what glibc does.
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

// parseShort takes the first option of a cluster, and its argument from the
// rest of it or from args.
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
		return "", args, fmt.Errorf("option requires an argument -- '%c'", c)
	}
	return cluster, args, fmt.Errorf("invalid option -- '%c'", c)
}

// parseLong takes --name, --name=value or --name value. A name may be cut short
// as long as it is unique.
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
		return args, fmt.Errorf("unrecognized option '%s'", word)
	case len(found) > 1:
		var s strings.Builder
		for _, o := range found {
			fmt.Fprintf(&s, " '--%s'", o.Long)
		}
		return args, fmt.Errorf("option '%s' is ambiguous; possibilities:%s", word, &s)
	}
	o := found[0]
	switch {
	case o.Arg == "" && given:
		return args, fmt.Errorf("option '--%s' doesn't allow an argument", o.Long)
	case o.Arg == "" || given:
		return args, o.Set(value)
	case len(args) == 0:
		return args, fmt.Errorf("option '--%s' requires an argument", o.Long)
	}
	return args[1:], o.Set(args[0])
}

// Usage is the usage message in the layout of pmUsageMessage(3). An option
// without letter and name is a heading.
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

const textColumn = 24 // where the texts of a usage message begin

func join(name, sep, arg string) string {
	if arg == "" {
		return name
	}
	return name + sep + arg
}
