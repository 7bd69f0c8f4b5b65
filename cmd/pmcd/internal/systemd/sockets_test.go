package systemd

import (
	"errors"
	"strings"
	"testing"
)

// Sockets for another process are left alone, and so is what makes no sense.
func TestSockets(t *testing.T) {
	for _, tt := range []struct {
		env Env
		err string
	}{
		{Env{}, ""},
		{Env{"LISTEN_FDS": "3"}, ""},
		{Env{"LISTEN_FDS": "3", "LISTEN_PID": "2"}, ""},
		{Env{"LISTEN_FDS": "3", "LISTEN_PID": "01"}, ""},
		{Env{"LISTEN_FDS": "0", "LISTEN_PID": "1"}, ""},
		{Env{"LISTEN_PID": "1"}, "is not a number of sockets"},
		{Env{"LISTEN_FDS": "-1", "LISTEN_PID": "1"}, "is not a number of sockets"},
		{Env{"LISTEN_FDS": "99999999999999999999", "LISTEN_PID": "1"}, "is not a number of sockets"},
	} {
		files, errs := Sockets(tt.env, 1)
		err := errors.Join(errs...)
		if len(files) != 0 || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%v: %v, %v; want %q", tt.env, files, err, tt.err)
		}
	}
}
