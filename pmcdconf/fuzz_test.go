package pmcdconf

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// render returns agents as text for pmcd.conf.
func render(agents []Agent) string {
	var b strings.Builder
	for _, a := range agents {
		fmt.Fprintf(&b, "%s %d %v ", quote(a.Name), a.Domain, a.Kind)
		switch a.Kind {
		case DSO:
			fmt.Fprintf(&b, "%s %s", quote(a.Entry), quote(cmp.Or(a.Path, "builtin")))
		case Socket:
			fmt.Fprintf(&b, "%s %s %s", a.Family, quote(a.Address), a.Command())
		case Pipe:
			b.WriteString("binary ")
			if a.NotReady {
				b.WriteString("notready ")
			}
			b.WriteString(a.Command())
		}
		b.WriteString(" # end\n") // a backslash at the end would continue it
	}
	return b.String()
}

// checkPositions checks the positions of mistakes and that they can be printed.
func checkPositions(t *testing.T, conf *Config, text string) {
	lines := strings.Count(text, "\n") + 1
	for _, e := range conf.Problems {
		if e.Err == nil || e.PCP() == "" || e.Detail() == "" {
			t.Fatalf("%#v", e)
		}
		if e.Pos.Line > lines || e.Pos.Col > maxLine+2 {
			t.Fatalf("%v is not a position in %q", e, text)
		}
	}
	for _, a := range conf.Agents {
		if a.Pos.Line < 1 || a.Pos.Line > lines {
			t.Fatalf("%v is not a position in %q", a.Pos, text)
		}
	}
}

// noPanic fails the test if the parser has reported a panic as a mistake in the file.
func noPanic(t *testing.T, conf *Config) {
	for _, e := range conf.Problems {
		if strings.HasPrefix(e.Err.Error(), "internal error") {
			t.Fatal(e)
		}
	}
}

// FuzzParse checks that nothing panics, and that an accepted configuration is the same
// after it has been written and read again.
func FuzzParse(f *testing.F) {
	for i := range fileCases {
		f.Add(fileCases[i].conf)
	}
	for i := range hostVectors {
		f.Add(hostVector(i).conf)
	}
	f.Fuzz(func(t *testing.T, text string) {
		conf, err := Parse("conf", strings.NewReader(text), fakeOptions)
		if conf == nil || conf.Access == nil {
			t.Fatalf("no configuration: %v", err)
		}
		noPanic(t, conf)
		checkPositions(t, conf, text)
		if err != nil {
			if len(conf.Agents) > 0 || len(conf.Problems) == 0 || conf.Access.CredsRequired() {
				t.Fatalf("rejected (%v), but there is %+v", err, conf)
			}
			return
		}
		again := render(conf.Agents)
		for _, line := range strings.Split(again, "\n") {
			if len(line) > maxLine {
				return // quotes and escapes need room
			}
		}
		conf2, err := Parse("conf", strings.NewReader(again), fakeOptions)
		if err != nil {
			t.Fatalf("%q is not accepted: %v", again, err)
		}
		if len(conf2.Problems) > 0 {
			t.Fatalf("%q: %v", again, conf2.Problems)
		}
		if len(conf.Agents) != len(conf2.Agents) {
			t.Fatalf("%q: %d agents, not %d", again, len(conf2.Agents), len(conf.Agents))
		}
		for i := range conf.Agents {
			a, b := conf.Agents[i], conf2.Agents[i]
			if !a.Same(b) {
				t.Fatalf("%q: %v, not %v", again, b, a)
			}
			a.Pos, b.Pos = Pos{}, Pos{}
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("%q: %#v, not %#v", again, b, a)
			}
		}
	})
}

// FuzzAccess does the same for an access file. Accepted statements can be repeated: a
// statement contradicts itself only if another one was merged into it.
func FuzzAccess(f *testing.F) {
	for i := range fileCases {
		if _, text, ok := strings.Cut(fileCases[i].conf, "[access]\n"); ok {
			f.Add(text)
		}
		f.Add(fileCases[i].access)
	}
	for i := range hostVectors {
		f.Add(hostVectors[i].conf + hostVectors[i].access)
	}
	for name := range badHosts {
		f.Add("allow \"" + name + "\" : all;")
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := newParser(fakeOptions)
		conf, err := p.run(func() bool { return p.accessFile("conf", strings.NewReader(text)) })
		noPanic(t, conf)
		checkPositions(t, conf, text)
		for _, r := range p.rules {
			if r.Denied&^r.Specified != 0 || r.Max < 0 {
				t.Fatalf("%q: %+v", text, r)
			}
		}
		if err != nil {
			return
		}
		// The section in pmcd.conf is read in the same way.
		conf2, err := Parse("conf", strings.NewReader("[access]\n"+text), fakeOptions)
		if err != nil {
			t.Fatalf("%q is accepted in an access file only: %v", text, err)
		}
		if got, want := conf2.Access.String(), conf.Access.String(); got != want {
			t.Fatalf("%q: got\n%s\nwant\n%s", text, got, want)
		}
	})
}
