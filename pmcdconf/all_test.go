package pmcdconf

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Options.All reports more mistakes. It does not change those that are found without
// it, nor which configurations are accepted.
func TestAll(t *testing.T) {
	more := 0
	for i := range fileCases {
		tt := &fileCases[i]
		usual, err := tt.parse(t, fakeOptions)
		opt := fakeOptions
		opt.All = true
		all, allErr := tt.parse(t, opt)
		if len(all.Problems) > len(usual.Problems) {
			more++
		}
		t.Run(tt.name, func(t *testing.T) {
			if (err == nil) != (allErr == nil) || len(all.Agents) != len(usual.Agents) {
				t.Errorf("%v, and with All: %v", err, allErr)
			}
			said := func(c *Config) (list []string) {
				for _, p := range c.Problems {
					dir, _ := filepath.Split(p.Pos.File)
					p := *p
					p.Pos.File = ""
					list = append(list, strings.ReplaceAll(p.Error(), " at "+dir, " at "))
				}
				return list
			}
			with := said(all)
			for _, p := range said(usual) {
				if !slices.Contains(with, p) {
					t.Errorf("with All there is no %q in %q", p, with)
				}
			}
			if slices.Sort(with); len(slices.Compact(slices.Clone(with))) != len(with) {
				t.Errorf("with All something is reported twice: %q", with)
			}
		})
	}
	if more == 0 {
		t.Error("All finds nothing more")
	}
}
