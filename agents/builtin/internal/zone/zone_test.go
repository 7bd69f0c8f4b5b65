package zone

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

func TestTimeZoneText(t *testing.T) {
	for _, tt := range []struct {
		name string
		east int
		want string
	}{
		{"UTC", 0, "UTC"},
		{"GMT", 0, "GMT"},
		{"AEDT", 11 * 3600, "AEDT-11"},
		{"EST", -5 * 3600, "EST+5"},
		{"IST", 5*3600 + 1800, "IST-5:30"},
		{"NST", -(3*3600 + 1800), "NST+3:30"},
		{"-05", -5 * 3600, "-05+5"},
		{"+0545", 5*3600 + 2700, "+0545-5:45"},
		{"x", -300, "x+0:05"},
		{"LMT", 3, "LMT"},
		{"LMT", -(1172), "LMT+0:19"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := posixTZ(tt.name, tt.east); got != tt.want {
				t.Errorf("%s, %d s east: got %q, want %q", tt.name, tt.east, got, tt.want)
			}
		})
	}
}

const zoneInfo = "/usr/share/zoneinfo"

// TestTimeZoneOfHost changes the file as an administrator does.
func TestTimeZoneOfHost(t *testing.T) {
	if _, err := os.Stat(filepath.Join(zoneInfo, "Australia/Sydney")); err != nil {
		testutil.Missing(t, err)
	}
	local := filepath.Join(t.TempDir(), "localtime")
	z := New(local, "")
	at := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ file, want string }{
		{"", "UTC"},
		{"Australia/Sydney", "AEDT-11"},
		{"America/New_York", "EST+5"},
		{"Asia/Kolkata", "IST-5:30"},
		{"America/St_Johns", "NST+3:30"},
		{"America/Bogota", "-05+5"},
		{"UTC", "UTC"},
		{"nonsense", "UTC"},
	} {
		os.Remove(local)
		if tt.file != "" {
			symlink(t, filepath.Join(zoneInfo, tt.file), local)
		}
		if got := Text(at, z.Location()); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.file, got, tt.want)
		}
	}
	if got := Text(at.AddDate(0, 6, 0), z.Location()); got != "UTC" {
		t.Errorf("got %q", got)
	}
	os.Remove(local)
	writeFile(t, local, []byte("TZif nonsense"))
	if got := Text(at, z.Location()); got != "UTC" {
		t.Errorf("nonsense: got %q", got)
	}
	b, err := os.ReadFile(filepath.Join(zoneInfo, "Australia/Sydney"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, local, b)
	for month, want := range map[time.Month]string{time.January: "AEDT-11", time.July: "AEST-10"} {
		if got := Text(time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC), z.Location()); got != want {
			t.Errorf("%v: got %q, want %q", month, got, want)
		}
	}
}

func symlink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestZoneName(t *testing.T) {
	dir := t.TempDir()
	info := filepath.Join(dir, "zoneinfo")
	for _, d := range []string{"Area", "posix/Area"} {
		if err := os.MkdirAll(filepath.Join(info, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string]string{
		"Area/Town": "TZif1", "Area/City": "TZif2", "Area/Copy": "TZif2", "posix/Area/City": "TZif2",
		"localtime": "TZif2", "large": "TZif2 and more", "posix/Area/Only": "TZif4",
	} {
		writeFile(t, filepath.Join(info, name), []byte(data))
	}
	for _, tt := range []struct{ link, data, want string }{
		{link: "/usr/share/zoneinfo/Europe/Berlin", want: ":Europe/Berlin"},
		{link: "../usr/share/zoneinfo/Etc/UTC", want: ":Etc/UTC"},
		{link: "/etc/zone", want: ""},
		{link: "zoneinfo/", want: ""},
		{data: "TZif1", want: ":Area/Town"},
		{data: "TZif2", want: ":Area/City"},
		{data: "TZif3", want: ""},
		{data: "TZif4", want: ""},
		{link: filepath.Join(info, "Area/Town"), want: ":Area/Town"},
		{want: ""},
	} {
		local := filepath.Join(dir, "localtime")
		os.Remove(local)
		switch {
		case tt.link != "":
			symlink(t, tt.link, local)
		case tt.data != "":
			writeFile(t, local, []byte(tt.data))
		}
		if got := New(local, info).Name; got != tt.want {
			t.Errorf("link %q, content %q: got %q, want %q", tt.link, tt.data, got, tt.want)
		}
	}
	if z := New("", ""); z.Name != "" || Text(time.Now(), z.Location()) != "UTC" {
		t.Errorf("no file: %q", z.Name)
	}
}
