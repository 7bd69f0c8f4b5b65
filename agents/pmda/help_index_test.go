package pmda

import "testing"

// The index of a help file has the entries of ParseHelp, and its error.
func FuzzHelpIndex(f *testing.F) {
	f.Add("# texts\nbefore\n@ a A\none\n# no\ntwo\n\n@ 60.1.2 number\r\ntext\r\n@b\n@ a twice\n@\n@ S.3\tlast\r")
	f.Add("@")
	f.Add("\n@ a.b c\nx")
	f.Fuzz(func(t *testing.T, text string) {
		want, wantErr := ParseHelp(text)
		index, err := newHelpIndex(text)
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Errorf("error %v, want %v", err, wantErr)
		}
		for key, entry := range want {
			if got := index.find(key); got != entry {
				t.Errorf("entry %q is %q, want %q", key, got, entry)
			}
		}
		for _, e := range index.entries {
			if _, ok := want[e.key]; !ok && index.find(e.key) != (HelpText{}) {
				t.Errorf("ParseHelp has no entry %q, and the index has", e.key)
			}
		}
		if got := index.find("no such entry"); got != (HelpText{}) {
			t.Errorf("an entry that does not exist is %q", got)
		}
	})
}
