package reload

import (
	"errors"
	"io/fs"
	"os/user"
)

// A Mistake is why pmcd cannot start before an admin has changed a file of the
// configuration. Another start would fail, too.
type Mistake struct{ Err error }

func (m *Mistake) Error() string { return m.Err.Error() }

func (m *Mistake) Unwrap() error { return m.Err }

// asMistake returns err as a Mistake, unless a later start may succeed: a file could not be
// read although it is there, or a user of an access rule is not known yet.
func asMistake(err error) error {
	there := errors.As(err, new(*fs.PathError)) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)
	if there || errors.As(err, new(user.UnknownUserError)) || errors.As(err, new(user.UnknownGroupError)) {
		return err
	}
	return &Mistake{err}
}
