// Package watch prints the values of metrics again and again: on a terminal in place, and
// otherwise as lines.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/message"
	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/metrics"
	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/scale"
	"github.com/gopcp/pmcd/pdu"
)

// Options say how to print.
type Options struct {
	Interval time.Duration
	Samples  int // how many; 0 is no end
	Host     string
	JSON     bool

	Out, Err io.Writer
	// Size returns the columns and rows of the terminal that Out is. It is nil if Out is none.
	Size func() (width, height int)
	// Resized has a value when the size has changed.
	Resized <-chan os.Signal
	// Keys has the keys of the terminal; nil if it has none.
	Keys <-chan Key
}

// Run prints samples until ctx ends, a key ends it, or there were enough. A connection that was lost is no
// end: Run prints the error in place of a sample, and tries again at the next one. It reports whether all
// metrics had values in the last sample.
func Run(ctx context.Context, s *metrics.Sampler, o Options) (good bool, err error) {
	if o.JSON {
		o.Size = nil
	}
	defer func() {
		if o.Size != nil && ctx.Err() != nil {
			fmt.Fprintln(o.Out) // after the ^C that the terminal has shown
		}
	}()
	tick := time.NewTicker(o.Interval)
	defer tick.Stop()
	out := printerFor(o)
	for shown, first := 0, true; ; first = false {
		sample, err := s.Fetch(ctx)
		switch {
		case ctx.Err() != nil:
			return good, nil
		case err != nil:
			good = false
			shown++
			err = out.failed(err)
		default:
			good = !sample.Failed()
			// Rates need two fetches. Only a screen shows the first one.
			base := first && sample.HasRates()
			if base && o.Size == nil {
				break
			}
			if !base {
				shown++
			}
			err = out.sample(sample)
		}
		if err != nil || o.Samples > 0 && shown >= o.Samples {
			return good, err
		}
		for waiting := true; waiting; {
			select {
			case <-tick.C:
				waiting = false
			case <-o.Resized:
				if err := out.resized(); err != nil {
					return good, err
				}
			case k := <-o.Keys:
				if k == Quit {
					return good, nil
				}
				if err := out.key(k); err != nil {
					return good, err
				}
			case <-ctx.Done():
				return good, nil
			}
		}
	}
}

// A printer prints samples in a form.
type printer interface {
	sample(*metrics.Sample) error
	failed(error) error // to fetch a sample
	resized() error     // the terminal was
	key(Key) error      // was typed
}

func printerFor(o Options) printer {
	switch {
	case o.JSON:
		return &jsonLines{o}
	case o.Size != nil:
		return &screen{Options: o}
	}
	return &lines{o}
}

// jsonLines prints an object a line.
type jsonLines struct{ Options }

func (p *jsonLines) sample(s *metrics.Sample) error {
	enc := message.NewJSONEncoder(p.Out)
	enc.SetEscapeHTML(false)
	return enc.Encode(s)
}

func (p *jsonLines) failed(err error) error { return complain(p.Err, err) }

func (p *jsonLines) resized() error { return nil }
func (p *jsonLines) key(Key) error  { return nil }

func complain(w io.Writer, err error) error {
	_, err = fmt.Fprintf(w, "pmcdctl: %s\n", message.Printable(metrics.Reason(err)))
	return err
}

// lines prints a value a line.
type lines struct{ Options }

func (p *lines) sample(s *metrics.Sample) error {
	stamp := s.Time.Local().Format(time.TimeOnly)
	for _, r := range rows(s) {
		if _, err := fmt.Fprintf(p.Out, "%s  %s  %s\n", stamp, r.label, r.text); err != nil {
			return err
		}
	}
	return nil
}

func (p *lines) failed(err error) error { return complain(p.Err, err) }

func (p *lines) resized() error { return nil }
func (p *lines) key(Key) error  { return nil }

// A row is a value in a table. Its texts are printable.
type row struct {
	label, text string
	number      bool
	value       float64 // of a number that is known
}

// rows returns the values of a sample for people.
func rows(s *metrics.Sample) (all []row) {
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if m.Err != nil {
			all = append(all, newRow(m.Label(), "no value: "+cause(m.Err), false))
			continue
		}
		if len(m.Values) == 0 {
			all = append(all, newRow(m.Name, "no values", false))
		}
		busy := m.Rate && scale.Busy(m.Desc.Units)
		for j := range m.Values {
			v := &m.Values[j]
			if v.Err != nil {
				// A counter that is new, or was set back, has a rate from the next sample on.
				r := newRow(v.Label(m.Name), "-", true)
				r.value = math.Inf(-1)
				all = append(all, r)
				continue
			}
			value, err := v.Is.Float64()
			r := newRow(v.Label(m.Name), scale.Text(v.Is, m.Scale, busy), err == nil)
			r.value = value
			all = append(all, r)
		}
	}
	return all
}

func newRow(label, text string, number bool) row {
	return row{label: message.Printable(label), text: message.Printable(text), number: number}
}

// cause returns err without the name of the metric.
func cause(err error) string {
	var code pdu.Errno
	if errors.As(err, &code) {
		return code.Error()
	}
	return err.Error()
}
