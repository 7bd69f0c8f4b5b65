package mmv

import (
	"fmt"
	"strings"
	"sync"
)

// MaxString is the largest length of the value of a [String], in bytes.
const MaxString = 254

// A String is a text.
type String struct {
	mu   sync.Mutex // guards the following, since an update is several writes
	at   *entry
	text string
}

func (s *String) init(*Registry) { s.at = ownEntry() }

// move implements cell.
func (s *String) move(to *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = to
	s.write()
}

// Set sets the text. With [Config.Sentinel] an empty text is an absent value. A text that is
// longer than [MaxString] or has a zero byte is an error, and the value is not changed.
func (s *String) Set(text string) error {
	if len(text) > MaxString {
		return fmt.Errorf("mmv: a text of %d bytes, but a string has at most %d", len(text), MaxString)
	}
	if strings.IndexByte(text, 0) >= 0 {
		return fmt.Errorf("mmv: %q has a zero byte", text)
	}
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at != nil && text != s.text {
		s.text = text
		s.write()
	}
	return nil
}

// write puts the text into the file. The caller holds mu.
func (s *String) write() {
	slots := s.at.text
	if slots == nil {
		return
	}
	slots.used = 1 - slots.used
	slot := slots.bytes[slots.used]
	clear(slot[copy(slot, s.text):])
	s.at.value.Store(uint64(len(s.text))) // as PCP's library does; readers do not use it
	s.at.extra.Store(slots.offset[slots.used])
}

// Value returns the text.
func (s *String) Value() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}
