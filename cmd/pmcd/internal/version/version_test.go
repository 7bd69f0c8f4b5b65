package version

import (
	"runtime/debug"
	"testing"
)

func TestVersionOf(t *testing.T) {
	git := []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "1fd72ce0123456789abcdef"}}
	changed := append(git[:2:2], debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	for _, tt := range []struct {
		name, tag string
		settings  []debug.BuildSetting
		want      string
	}{
		{"an archive", "(devel)", nil, release},
		{"a test", "", nil, release},
		{"a checkout", "(devel)", git, release + "+git.1fd72ce01234"},
		{"a checkout with changes", "(devel)", changed, release + "+git.1fd72ce01234.dirty"},
		{"a checkout, as Go 1.24 has it", "v0.0.0-20261122160300-1fd72ce01234", git, release + "+git.1fd72ce01234"},
		{"the same with changes", "v0.0.0-20261122160300-1fd72ce01234+dirty", changed, release + "+git.1fd72ce01234.dirty"},
		{"a checkout after a release", "v0.1.1-0.20261122160300-1fd72ce01234", git, release + "+git.1fd72ce01234"},
		{"go install ...@revision", "v0.0.0-20261122160300-1fd72ce01234", nil, release + "+git.1fd72ce01234"},
		{"a release", "v0.3.2", git, "0.3.2"},
		{"a release with changes", "v0.3.2+dirty", changed, "0.3.2+dirty"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: tt.tag}, Settings: tt.settings}
		if got := fromInfo(info); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	if got := fromInfo(nil); got != release {
		t.Errorf("without information: got %s, want %s", got, release)
	}
}
