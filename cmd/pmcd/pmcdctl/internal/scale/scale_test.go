package scale

import (
	"math"
	"testing"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

func TestNumber(t *testing.T) {
	rate := func(u pdu.Units) pdu.Units {
		r, _ := pmapi.RateUnits(u)
		return r
	}
	for _, tt := range []struct {
		f    float64
		u    pdu.Units
		want string
	}{
		{0, pdu.Byte, "0 B"},
		{1023, pdu.Byte, "1023 B"},
		{1023.7, pdu.Byte, "1 KiB"},
		{1024, pdu.Byte, "1 KiB"},
		{8138012, pdu.Kbyte, "7.76 GiB"},
		{12.34, pdu.Mbyte, "12.3 MiB"},
		{-2048, pdu.Byte, "-2 KiB"},
		{math.Pow(2, 90), pdu.Byte, "1073741824 EiB"},
		{1536, rate(pdu.Byte), "1.5 KiB/s"},
		{3, rate(pdu.Kbyte), "3 KiB/s"},
		{60, pdu.NewUnits(1, -1, 0, pdu.SpaceByte, pdu.TimeMin, 0), "1 B/s"},

		{0, pdu.Sec, "0 s"},
		{5, pdu.Nsec, "5 ns"},
		{2500, pdu.Nsec, "2.5 µs"},
		{0.9996, pdu.Msec, "1 ms"},
		{12, pdu.Msec, "12 ms"},
		{59.4, pdu.Sec, "59.4 s"},
		{61, pdu.Sec, "1m 1s"},
		{7322, pdu.Sec, "2h 2m"},
		{90000, pdu.Sec, "1d 1h"},
		{-90000, pdu.Sec, "-1d 1h"},
		{1e18, pdu.Sec, "11574074074074 d"},

		{0, pdu.Count, "0"},
		{9999, pdu.Count, "9999"},
		{12345, pdu.Count, "12.3k"},
		{999999, pdu.Count, "1M"},
		{4.56e9, pdu.Count, "4.56G"},
		{7, pdu.NewUnits(0, 0, 1, 0, 0, 3), "7000"},
		{0.25, rate(pdu.Count), "0.25/s"},
		{123456, rate(pdu.Count), "123k/s"},
		{2, rate(0), "2/s"},
		{0.123456, 0, "0.123"},
		{0.00001234, 0, "1.23e-05"},

		{45.5, pdu.Celsius, "45.5 °C"},
		{3, pdu.Units(31 << 3), "3 / temperature (scale-0)"},
		{7, pdu.NewUnits(0, 1, -1, 0, pdu.TimeMsec, 0), "7 millisec / count"},
		{7, pdu.NewUnits(1, 0, 1, pdu.SpaceKbyte, 0, 0), "7 Kbyte count"},
		{7, pdu.NewUnits(1, 0, 0, 15, 0, 0), "7 space-15"},
	} {
		if got := Number(tt.f, tt.u); got != tt.want {
			t.Errorf("%v %v: %q, want %q", tt.f, tt.u, got, tt.want)
		}
	}
}

func TestText(t *testing.T) {
	for _, tt := range []struct {
		v    pmapi.Value
		u    pdu.Units
		busy bool
		want string
	}{
		{pmapi.ValueOf(0.257), 0, true, "25.7%"},
		{pmapi.ValueOf(1.0), 0, true, "100%"},
		{pmapi.ValueOf(uint32(1234567)), 0, false, "1234567"},
		{pmapi.ValueOf(uint32(1234567)), pdu.Count, false, "1.23M"},
		{pmapi.ValueOf(float32(0.1)), 0, false, "0.1"},
		{pmapi.ValueOf("x y"), 0, false, `"x y"`},
		{pmapi.ValueOf(math.NaN()), pdu.Byte, false, "nan"},
		{pmapi.ValueOf(math.Inf(-1)), pdu.Byte, false, "-inf"},
		{pmapi.ValueOf(3.0), pdu.Count, true, "3"},
	} {
		if got := Text(tt.v, tt.u, tt.busy); got != tt.want {
			t.Errorf("%v %v %t: %q, want %q", tt.v, tt.u, tt.busy, got, tt.want)
		}
	}
	for u, want := range map[pdu.Units]bool{pdu.Msec: true, pdu.Count: false, 0: false, pdu.NewUnits(0, 1, -1, 0, pdu.TimeMsec, 0): false} {
		if Busy(u) != want {
			t.Errorf("Busy(%v) is %t", u, !want)
		}
	}
}

// No number and no units are too strange.
func FuzzNumber(f *testing.F) {
	f.Add(1.5, uint32(pdu.Byte))
	f.Add(math.MaxFloat64, uint32(0xffffffff))
	f.Fuzz(func(t *testing.T, x float64, u uint32) {
		if s := Text(pmapi.ValueOf(x), pdu.Units(u), u&1 == 0); s == "" || len(s) > 200 {
			t.Errorf("%v %v: %q", x, pdu.Units(u), s)
		}
	})
}
