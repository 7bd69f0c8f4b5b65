package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// A snapshot has the values of one fetch. The scrapers that it is for share its texts, so
// their number does not matter for memory.
type snapshot struct {
	families []*dto.MetricFamily

	mu    sync.Mutex // guards texts, which the first scraper of a form makes
	texts map[form][]byte
}

// A form is a way to write a snapshot.
type form struct {
	format expfmt.Format
	gzip   bool
}

// send sends a snapshot in the form that the client prefers.
func (s *snapshot) send(w http.ResponseWriter, r *http.Request, openMetrics bool) {
	as := form{format(r.Header, openMetrics), acceptsGzip(r.Header)}
	text, err := s.text(as)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", string(as.format))
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Vary", "Accept, Accept-Encoding")
	if as.gzip {
		h.Set("Content-Encoding", "gzip")
	}
	w.Write(text) // an error is the client's
}

// text returns s in a form.
func (s *snapshot) text(as form) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locked(as)
}

func (s *snapshot) locked(as form) ([]byte, error) {
	if text, ok := s.texts[as]; ok {
		return text, nil
	}
	var b bytes.Buffer
	if as.gzip {
		plain, err := s.locked(form{as.format, false})
		if err != nil {
			return nil, err
		}
		z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		if err != nil {
			return nil, err
		}
		if _, err := z.Write(plain); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
	} else if err := s.encode(&b, as.format); err != nil {
		return nil, err
	}
	if s.texts == nil {
		s.texts = make(map[form][]byte)
	}
	s.texts[as] = b.Bytes()
	return b.Bytes(), nil
}

// encode writes s in a format.
func (s *snapshot) encode(b *bytes.Buffer, f expfmt.Format) error {
	families := s.families
	if f.FormatType() == expfmt.TypeOpenMetrics {
		families = openMetrics(families)
	}
	enc := expfmt.NewEncoder(b, f)
	for _, family := range families {
		if err := enc.Encode(family); err != nil {
			return err
		}
	}
	if c, ok := enc.(expfmt.Closer); ok {
		return c.Close()
	}
	return nil
}

// openMetrics returns families with names for OpenMetrics, where the counter x has samples with the
// name x_total. If a name of two is the same then, the first stays.
func openMetrics(families []*dto.MetricFamily) []*dto.MetricFamily {
	known := make(map[string]bool)
	var list []*dto.MetricFamily
	for _, f := range families {
		name, sample := f.GetName(), f.GetName()
		if f.GetType() == dto.MetricType_COUNTER {
			name = strings.TrimSuffix(name, "_total")
			sample = name + "_total"
		}
		if known[name] || known[sample] {
			continue
		}
		known[name], known[sample] = true, true
		if sample != f.GetName() {
			f = &dto.MetricFamily{Name: &sample, Help: f.Help, Type: f.Type, Metric: f.Metric}
		}
		list = append(list, f)
	}
	return list
}
