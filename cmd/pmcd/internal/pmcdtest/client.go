package pmcdtest

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Greeted connects to a Unix domain socket and reads the greeting of pmcd.
func Greeted(path string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(timeout))
	if _, err := io.ReadFull(conn, make([]byte, 20)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// A Client is a client of pmcd. It is for one goroutine.
type Client struct{ Conn net.Conn }

// Dial connects to a Unix domain socket and does the handshake.
func Dial(sock string) (*Client, error) {
	conn, err := Greeted(sock, 30*time.Second)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Time{})
	b, _ := pdu.Append(nil, 0, &pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(0)}})
	b, _ = pdu.Append(b, 0, &pdu.Profile{})
	_, err = conn.Write(b)
	return &Client{conn}, err
}

// Fetch returns the value of a metric, or the error that pmcd returns for it.
func (f *Client) Fetch(id pdu.PMID) (uint32, error) {
	b, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{id}})
	if err != nil {
		return 0, err
	}
	if _, err := f.Conn.Write(b); err != nil {
		return 0, err
	}
	for {
		head := make([]byte, pdu.HeaderLen)
		if _, err := io.ReadFull(f.Conn, head); err != nil {
			return 0, err
		}
		b := append(head, make([]byte, binary.BigEndian.Uint32(head)-pdu.HeaderLen)...)
		if _, err := io.ReadFull(f.Conn, b[pdu.HeaderLen:]); err != nil {
			return 0, err
		}
		_, m, err := pdu.Parse(b)
		if err != nil {
			return 0, err
		}
		switch m := m.(type) {
		case *pdu.Error: // state changes come first
			if m.Code < 0 {
				return 0, m.Code
			}
		case *pdu.Result:
			if m.Sets[0].Err < 0 {
				return 0, m.Sets[0].Err
			}
			return m.Sets[0].Values[0].Word, nil
		}
	}
}

// request sends PDUs and returns the reply to the last one. It skips state changes.
func (f *Client) request(t *testing.T, ms ...pdu.Message) pdu.Message {
	t.Helper()
	var b []byte
	var err error
	for _, m := range ms {
		if b, err = pdu.Append(b, 0, m); err != nil {
			t.Fatal(err)
		}
	}
	f.Conn.SetDeadline(time.Now().Add(time.Minute))
	defer f.Conn.SetDeadline(time.Time{})
	if _, err := f.Conn.Write(b); err != nil {
		t.Fatal(err)
	}
	r := pdu.NewReader(f.Conn, 0)
	for {
		b, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		_, m, err := pdu.Parse(append([]byte(nil), b...))
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := m.(*pdu.Error); !ok || e.Code < 0 {
			return m
		}
	}
}

// FetchAll fetches all metrics of the name space. It returns the number of values of
// each, or the error of the metric, which is negative.
func (f *Client) FetchAll(t *testing.T) map[pdu.PMID]int {
	t.Helper()
	names, ok := f.request(t, &pdu.PMNSTraverse{Name: ""}).(*pdu.PMNSNames)
	if !ok || len(names.Names) == 0 {
		t.Fatalf("no names: %+v", names)
	}
	values := make(map[pdu.PMID]int)
	for chunk := range slices.Chunk(names.Names, 1000) {
		ids, ok := f.request(t, &pdu.PMNSNames{Names: chunk}).(*pdu.PMNSIDs)
		if !ok {
			t.Fatal("no PMIDs")
		}
		result, ok := f.request(t, &pdu.Fetch{PMIDs: ids.PMIDs}).(*pdu.Result)
		if !ok {
			t.Fatal("no values")
		}
		for _, set := range result.Sets {
			if values[set.PMID] = len(set.Values); set.Err < 0 {
				values[set.PMID] = int(set.Err)
			}
		}
	}
	return values
}
