package goplugin

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestCompare(t *testing.T) {
	info := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: version, Settings: settings}
	}
	set := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	us := runtime.Version()
	for _, tt := range []struct {
		theirs, ours *debug.BuildInfo
		want         string
	}{
		{info(us), info(us), ""},
		{info("go1.2.3"), info(us), "p.so is built with go1.2.3, pmcd with " + us},
		{info(us, set("GOARCH", "arm64")), info(us, set("GOARCH", "amd64")), "p.so is built with GOARCH=arm64, pmcd with GOARCH=amd64"},
		{info(us, set("-msan", "true")), info(us), "p.so is built with -msan=true, pmcd with no -msan"},
		{info(us), info(us, set("-cover", "true")), "p.so is built with no -cover, pmcd with -cover=true"},
		{info(us, set("-tags", "a,b")), info(us, set("-tags", "a,b")), ""},
		{info(us, set("-ldflags", "-s"), set("vcs.revision", "1")), info(us), ""},
	} {
		got := ""
		if err := compare("p.so", tt.theirs, tt.ours); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%v and %v: got %q, want %q", tt.theirs.Settings, tt.ours.Settings, got, tt.want)
		}
	}
}
