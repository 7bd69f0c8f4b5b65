package sysfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// addDevice creates the directory of an interface.
func addDevice(t *testing.T, dir, name, mtu string) {
	t.Helper()
	path := filepath.Join(dir, name)
	err := os.Mkdir(path, 0o777)
	if err == nil {
		err = os.WriteFile(path+"/uevent", []byte("DEVTYPE=bridge\nINTERFACE="+name+"\nIFINDEX=2\n"), 0o666)
	}
	if err == nil {
		err = os.WriteFile(path+"/mtu", []byte(mtu+"\n"), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// rename renames a device as the kernel does.
func rename(t *testing.T, dir, from, to string) {
	t.Helper()
	err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, to, "uevent"), []byte("INTERFACE="+to+"\n"), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A device stays open until its name belongs to another device.
func TestDevice(t *testing.T) {
	dir := t.TempDir()
	r := &Reader{Root: dir, Renames: true}
	defer r.Close()
	addDevice(t, dir, "a", "1")
	addDevice(t, dir, "b", "2")
	var since [2]uint64
	check := func(what, a, b string, sameA, sameB bool) {
		t.Helper()
		r.Begin()
		for i, want := range []string{a, b} {
			d := r.Device("/", string(rune('a'+i)))
			if got := string(d.Value("mtu")); got != want {
				t.Errorf("%s: %c is %q, want %q", what, 'a'+i, got, want)
			}
			if same := d.Identity() == since[i]; same != [2]bool{sameA, sameB}[i] {
				t.Errorf("%s: %c is the same device: %v", what, 'a'+i, same)
			}
			since[i] = d.Identity()
			if d.Exists("mtu") != (want != "") || d.Exists("none") || len(d.Value("none")) > 0 {
				t.Errorf("%s: %c has other files", what, 'a'+i)
			}
		}
	}
	check("at first", "1", "2", false, false)
	check("again", "1", "2", true, true)
	rename(t, dir, "a", "t")
	rename(t, dir, "b", "a")
	rename(t, dir, "t", "b")
	check("swapped", "2", "1", false, false)
	check("again", "2", "1", true, true)
	// A file of a device that was removed has no text.
	if err := errors.Join(os.Truncate(dir+"/a/uevent", 0), os.RemoveAll(dir+"/a")); err != nil {
		t.Fatal(err)
	}
	check("a removed", "", "1", false, true)
	addDevice(t, dir, "a", "3")
	check("a new device with its name", "3", "1", false, true)
	rename(t, dir, "b", "bridge") // DEVTYPE has the same text, but is not the name
	check("b renamed", "3", "", true, false)

	// Without uevent, as in recorded trees, nothing stays open.
	if err := errors.Join(os.Truncate(dir+"/a/uevent", 0), os.Remove(dir+"/a/uevent")); err != nil {
		t.Fatal(err)
	}
	check("no uevent", "3", "", false, false)
	check("again", "3", "", false, false)
	if r.openCount != 0 || r.openFiles != 0 {
		t.Errorf("%d descriptors, %d files", r.openCount, r.openFiles)
	}

	// A device that gets a uevent later stays open after maxIdle generations.
	if err := os.WriteFile(dir+"/a/uevent", []byte("INTERFACE=a\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for range maxIdle {
		r.Begin()
		r.Device("/", "a")
	}
	if r.openCount != 2 || r.openFiles != 1 {
		t.Errorf("%d descriptors, %d files of one device", r.openCount, r.openFiles)
	}
}

// With Reader.Open all files are opened by it, and none stays open.
func TestDeviceOpen(t *testing.T) {
	dir := t.TempDir()
	addDevice(t, dir, "a", "1")
	opened := ""
	r := &Reader{Open: func(path string, flags int) (int, error) {
		opened += path + " "
		return syscall.Open(dir+path, flags|syscall.O_CLOEXEC, 0)
	}}
	for range 2 {
		r.Begin()
		d := r.Device("/", "a")
		if n, ok := d.Number("mtu"); n != 1 || !ok || !d.Exists("uevent") || d.Exists("none") {
			t.Errorf("%d, %v; there is uevent: %v, none: %v", n, ok, d.Exists("uevent"), d.Exists("none"))
		}
		if want := "/a/mtu /a/uevent /a/none "; opened != want || r.openCount != 0 {
			t.Errorf("opened %q, want %q; %d stay open", opened, want, r.openCount)
		}
		opened = ""
	}
}

// A file is read once in a generation.
func TestDeviceGenerations(t *testing.T) {
	dir := t.TempDir()
	r := &Reader{Root: dir, Renames: true}
	defer r.Close()
	addDevice(t, dir, "a", "1")
	write := func(mtu string) {
		t.Helper()
		if err := os.WriteFile(dir+"/a/mtu", []byte(mtu), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got, ok := r.Device("/", "a").Number("mtu"); got != 1 || !ok { // before the first Begin
		t.Errorf("%d, %v", got, ok)
	}
	r.Begin()
	d := r.Device("/", "a")
	for _, tt := range []struct {
		text, value, reread string
	}{{"2", "2", "2"}, {"3", "2", "3"}, {"", "3", ""}} {
		write(tt.text)
		if got := string(d.Value("mtu")); got != tt.value {
			t.Errorf("after %q: %q, want %q", tt.text, got, tt.value)
		}
		if got := d.Reread("mtu"); string(got) != tt.reread {
			t.Errorf("after %q: reread %q, want %q", tt.text, got, tt.reread)
		}
	}
	if _, ok := d.Number("mtu"); ok {
		t.Error("an empty file has a number")
	}
}

// The number of descriptors is limited. All devices have values.
func TestManyDevices(t *testing.T) {
	for _, limit := range []int{maxOpen, 20} {
		testManyDevices(t, limit)
	}
}

func testManyDevices(t *testing.T, limit int) {
	dir := t.TempDir()
	r := &Reader{Root: dir, Renames: true, limit: limit}
	many := limit + 10
	for i := range many {
		addDevice(t, dir, fmt.Sprint("a", i), fmt.Sprint(i))
	}
	for range 2 {
		r.Begin()
		for i := range many {
			if n, ok := r.Device("/", fmt.Sprint("a", i)).Number("mtu"); int(n) != i || !ok {
				t.Fatalf("%d is %d, %v", i, n, ok)
			}
		}
		if r.openCount > limit || r.openCount < limit-1 || r.openFiles != limit/2 {
			t.Errorf("%d descriptors, %d files", r.openCount, r.openFiles)
		}
	}
	for range 2 * maxIdle {
		r.Begin()
		r.Device("/", "a1")
	}
	if r.openCount != 3 || len(r.devices["/"]) != 1 {
		t.Errorf("%d descriptors, %d devices, want those of one device", r.openCount, len(r.devices["/"]))
	}
	r.Close()
	if r.openCount != 0 || r.openFiles != 0 {
		t.Errorf("%d descriptors, %d files", r.openCount, r.openFiles)
	}
}
