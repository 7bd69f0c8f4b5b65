package tlspolicy

import (
	"fmt"
	"time"
)

// expirySoon is how long before its end the validity of a certificate is a problem; less
// for one that is valid for a short time.
const (
	expirySoon  = 30 * 24 * time.Hour
	expiryShare = 3 // the last third
)

// ExpiryProblem returns a line about the certificate if it is not valid at the time now, or
// expires soon: in 30 days, and in the last third of the time in which it is valid.
// Otherwise it returns "".
func (s *Server) ExpiryProblem(now time.Time) string {
	c := s.expires
	what := fmt.Sprintf("the TLS certificate in %s%s", s.path, subjectOf(c))
	left := c.NotAfter.Sub(now)
	const date = "2 January 2006 15:04 MST"
	switch {
	case now.Before(s.leaf.NotBefore):
		return fmt.Sprintf("%s is not valid before %s; clients that verify it do not connect", what, s.leaf.NotBefore.Format(date))
	case left < 0:
		return fmt.Sprintf("%s expired on %s; clients that verify it do not connect: replace it, then SIGHUP", what, c.NotAfter.Format(date))
	case left < min(expirySoon, c.NotAfter.Sub(c.NotBefore)/expiryShare):
		return fmt.Sprintf("%s expires in %s, on %s; replace it, then SIGHUP", what, inDays(left), c.NotAfter.Format(date))
	}
	return ""
}

// inDays returns d in days, or in hours if it is less than two days.
func inDays(d time.Duration) string {
	if d < 48*time.Hour {
		return fmt.Sprintf("%d hours", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}
