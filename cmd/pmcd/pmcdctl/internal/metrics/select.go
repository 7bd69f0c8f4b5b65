package metrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A Selection is a metric, or one instance of it, that the user has named.
type Selection struct {
	Name     string
	Instance string // "" for all
}

func (s Selection) String() string {
	if s.Instance != "" {
		return s.Name + "[" + s.Instance + "]"
	}
	return s.Name
}

// Parse parses NAME or NAME[INSTANCE].
func Parse(arg string) (Selection, error) {
	name, inst, ok := strings.Cut(arg, "[")
	if !ok {
		return Selection{Name: arg}, nil
	}
	inst, ok = strings.CutSuffix(inst, "]")
	if !ok || inst == "" || name == "" {
		return Selection{}, fmt.Errorf("%q: want METRIC or METRIC[INSTANCE], in quotes for the shell", arg)
	}
	return Selection{name, strings.Trim(inst, `"`)}, nil
}

// A Choice is an argument of a command with what it selects.
type Choice struct {
	Arg      Selection
	Selected []Selection
	Err      error // why Arg selects nothing
}

// Select returns what the arguments of a command select, in order. The name of a subtree
// stands for all metrics below it. The error is that of the connection.
func Select(ctx context.Context, c *pmapi.Client, args []Selection) ([]Choice, error) {
	names := make([]string, len(args))
	for i, a := range args {
		names[i] = a.Name
	}
	ids, err := c.Lookup(ctx, names...)
	if ids == nil {
		return nil, err
	}
	errs := errorsOf(err, len(args))
	choices := make([]Choice, len(args))
	for i, a := range args {
		ch := &choices[i]
		ch.Arg = a
		switch err := errs[i]; {
		case err == nil:
			ch.Selected = []Selection{a}
		case errors.Is(err, pdu.ErrnoNonLeaf), errors.Is(err, pdu.ErrnoName): // a subtree, also one whose names its agent has
			var belowErr error
			if ch.Selected, belowErr = below(ctx, c, a); IsLost(belowErr) {
				return nil, belowErr
			}
			if errors.Is(belowErr, pdu.ErrnoName) {
				ch.Err = unknown(ctx, c, a.Name, err)
			} else {
				ch.Err = withHint(belowErr)
			}
		default:
			ch.Err = unknown(ctx, c, a.Name, err)
		}
	}
	return choices, nil
}

// Choose returns the choices for arguments that are metrics.
func Choose(args ...Selection) []Choice {
	choices := make([]Choice, len(args))
	for i, a := range args {
		choices[i] = Choice{Arg: a, Selected: []Selection{a}}
	}
	return choices
}

// Selected returns all that choices select, in order.
func Selected(choices []Choice) (all []Selection) {
	for _, ch := range choices {
		all = append(all, ch.Selected...)
	}
	return all
}

func below(ctx context.Context, c *pmapi.Client, s Selection) (all []Selection, err error) {
	for name, err := range c.Traverse(ctx, s.Name) {
		if err != nil {
			return nil, err
		}
		all = append(all, Selection{name, s.Instance})
	}
	return all, nil
}

// errorsOf returns the errors of n items from that of a request of package pmapi.
func errorsOf(err error, n int) []error {
	if items := (*pmapi.ItemsError)(nil); errors.As(err, &items) {
		return items.Errs
	}
	return slices.Repeat([]error{err}, n)
}

// IsLost reports whether err is that of a connection that was lost, or of a request that was
// interrupted.
func IsLost(err error) bool {
	var lost *pmapi.ConnError
	return errors.As(err, &lost) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pmapi.ErrClosed)
}

// fewNames is how many names an error proposes.
const fewNames = 5

// unknown returns the error for a name that is not in the name space, with names that are. For
// another error than that of a name it returns this with its hint.
func unknown(ctx context.Context, c *pmapi.Client, name string, err error) error {
	if !errors.Is(err, pdu.ErrnoName) {
		return withHint(err)
	}
	for parent := name; parent != ""; {
		var part string
		if i := strings.LastIndexByte(parent, '.'); i >= 0 {
			parent, part = parent[:i], parent[i+1:]
		} else {
			parent, part = "", parent
		}
		children, childrenErr := c.Children(ctx, parent)
		if IsLost(childrenErr) {
			break
		}
		if len(children) == 0 {
			continue
		}
		if near := nearest(parent, part, children); len(near) > 0 {
			return &explained{fmt.Sprintf("there is no metric %s: did you mean %s?", name, strings.Join(near, ", ")), err}
		}
		return &explained{fmt.Sprintf("there is no metric %s (%s shows those that exist)", name, strings.TrimSpace("pmcdctl list "+parent)), err}
	}
	return &explained{fmt.Sprintf("there is no metric %s (pmcdctl list shows those that exist)", name), err}
}

// nearest returns the names of children that begin as part does, or differ from it in little.
func nearest(parent, part string, children []pdu.Child) (near []string) {
	for _, child := range children {
		if strings.HasPrefix(child.Name, part) || part != "" && distance(part, child.Name) <= 1+len(part)/4 {
			near = append(near, strings.TrimPrefix(parent+"."+child.Name, "."))
		}
	}
	slices.Sort(near)
	return near[:min(len(near), fewNames)]
}

// distance is how many letters have to be put in, left out or changed to make b of a.
func distance(a, b string) int {
	if len(b) > 2*len(a)+2 { // names may be long, and are not near then
		return len(b)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, corner+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// Names returns the names of all metrics below prefix, which may end within a name, and is ""
// for all there are.
func Names(ctx context.Context, c *pmapi.Client, prefix string) ([]string, error) {
	prefix = strings.TrimSuffix(prefix, ".")
	names, err := traverse(ctx, c, prefix)
	if err == nil || !errors.Is(err, pdu.ErrnoName) {
		return names, withHint(err)
	}
	if i := strings.LastIndexByte(prefix, '.'); i < 0 {
		names, _ = traverse(ctx, c, "")
	} else {
		names, _ = traverse(ctx, c, prefix[:i])
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
	if len(names) == 0 {
		return nil, unknown(ctx, c, prefix, pdu.ErrnoName)
	}
	return names, nil
}

// Find returns the names of all metrics that begin with text. If there are none, it returns those
// that have text in them, and if there are none either, those with it in their line of help.
func Find(ctx context.Context, c *pmapi.Client, text string) ([]string, error) {
	names, err := Names(ctx, c, text)
	if !errors.Is(err, pdu.ErrnoName) {
		return names, err
	}
	all, allErr := traverse(ctx, c, "")
	if IsLost(allErr) {
		return nil, allErr
	}
	word := strings.ToLower(text)
	for _, name := range all {
		if strings.Contains(strings.ToLower(name), word) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		return names, nil
	}
	if strings.Contains(word, ".") { // a name, for which a line is read of each metric in vain
		return nil, err
	}
	ids, _ := c.Lookup(ctx, all...)
	for i, id := range ids {
		line, lineErr := c.Text(ctx, id, pmapi.TextOneLine)
		if IsLost(lineErr) {
			return nil, lineErr
		}
		if strings.Contains(strings.ToLower(line), word) {
			names = append(names, all[i])
		}
	}
	if len(names) == 0 {
		return nil, err
	}
	return names, nil
}

func traverse(ctx context.Context, c *pmapi.Client, name string) (names []string, err error) {
	for name, err := range c.Traverse(ctx, name) {
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}
