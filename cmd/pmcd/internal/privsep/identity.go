package privsep

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// An Identity is a user that a process can become (-U).
type Identity struct {
	Name     string
	UID, GID int
	Groups   []int // supplementary
}

// RunAs returns the user that pmcd becomes at the end of its start, or nil if its
// user stays the same. name is that of -U, or "".
func RunAs(name string, euid int, getenv func(string) string) (*Identity, error) {
	if euid != 0 && name == "" {
		return nil, nil
	}
	id, err := LookUp(cmp.Or(name, getenv("PCP_USER"), "pcp"))
	switch {
	case err != nil:
		return nil, err
	case euid != 0 && id.UID != euid:
		return nil, fmt.Errorf("cannot run as user %s: only root can change the user; start pmcd as root or as that user", id.Name)
	case euid != 0:
		return nil, nil
	}
	return id, nil
}

// LookUp returns the identity of a user.
func LookUp(name string) (*Identity, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("cannot run as user %s: %w", name, err)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("cannot run as user %s: its groups: %w", name, err)
	}
	id := &Identity{Name: name}
	for _, n := range []struct {
		text string
		set  func(int)
	}{{u.Uid, func(n int) { id.UID = n }}, {u.Gid, func(n int) { id.GID = n }}} {
		i, err := strconv.Atoi(n.text)
		if err != nil {
			return nil, err
		}
		n.set(i)
	}
	for _, text := range groups {
		g, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		id.Groups = append(id.Groups, g)
	}
	return id, nil
}

// Become gives this process, with all its threads, the rights of the user for good.
func (id *Identity) Become() error {
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"setgroups", func() error { return syscall.Setgroups(id.Groups) }},
		{"setgid", func() error { return syscall.Setgid(id.GID) }},
		{"setuid", func() error { return syscall.Setuid(id.UID) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("cannot become user %s: %s: %w", id.Name, step.name, err)
		}
	}
	if id.UID == 0 {
		return nil
	}
	if syscall.Setuid(0) == nil || id.GID != 0 && syscall.Setgid(0) == nil {
		return fmt.Errorf("cannot become user %s for good: root can be regained", id.Name)
	}
	status, err := os.ReadFile("/proc/self/status")
	if errors.Is(err, fs.ErrNotExist) { // no /proc
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if set, ok := strings.CutPrefix(line, "CapPrm:"); ok && strings.Trim(set, "\t0\n") != "" {
			return fmt.Errorf("cannot become user %s for good: capabilities remain: %s", id.Name, strings.TrimSpace(set))
		}
	}
	return nil
}
