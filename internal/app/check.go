package app

import (
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/certs"
	"github.com/lockd-io/lockd/internal/config"
)

// Check reads every file that a configuration names, as New does, and connects to nothing. It writes when the
// certificates expire. Its error has all that is wrong.
func Check(cfg config.Config, out io.Writer) error {
	now := time.Now()
	var errs []error
	say := func(key string, expires time.Time) {
		if _, err := fmt.Fprintf(out, "%s expires at %s, in %s\n", key, expires.UTC().Format(time.RFC3339),
			days(expires.Sub(now))); err != nil {
			errs = append(errs, err)
		}
	}
	for _, e := range endpoints(cfg) {
		if !e.tls.Enabled() {
			continue
		}
		server, err := certs.New(filesOf(e.tls), zap.NewNop())
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.%w", e.section, err))
			continue
		}
		say(e.section+".cert_file", server.Expires())
	}
	all, err := backends(cfg)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, b := range all {
		if b.TLS == nil || b.TLS.GetClientCertificate == nil {
			continue
		}
		shown, err := b.TLS.GetClientCertificate(nil)
		if err == nil && now.After(shown.Leaf.NotAfter) {
			err = fmt.Errorf("redis.tls.cert_file: the certificate expired at %s", shown.Leaf.NotAfter.Format(time.RFC3339))
		}
		if err != nil {
			errs = append(errs, err)
		} else {
			say("redis.tls.cert_file", shown.Leaf.NotAfter)
		}
		break // all members of a majority have the same one
	}
	return errors.Join(errs...)
}

// days is a duration for people.
func days(d time.Duration) string {
	if d < 48*time.Hour {
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
