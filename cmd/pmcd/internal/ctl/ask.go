package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// maxReport is the largest Report that is accepted, in bytes. A Report has some hundred bytes
// for each client.
const maxReport = 64 << 20

// ErrRefused is the error of Ask if pmcd does not answer this user.
var ErrRefused = errors.New("no answer: only root and the user that pmcd runs as may ask")

// Ask returns the Report of the pmcd that serves path, until ctx ends.
func Ask(ctx context.Context, path string) (*Report, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	r, err := read(conn, maxReport)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// read decodes a Report of at most most bytes.
func read(from io.Reader, most int64) (*Report, error) {
	b, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case len(b) == 0:
		return nil, errors.Join(ErrRefused, err)
	case int64(len(b)) > most:
		return nil, fmt.Errorf("more than %d bytes: this is no pmcd", most)
	case err != nil:
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("this is no pmcd, or not of this version: %w", err)
	}
	return r, nil
}
