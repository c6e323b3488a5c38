package app

import (
	"crypto/tls"
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
	shown, err := checkRedis(cfg)
	if err != nil {
		errs = append(errs, err)
	}
	if shown != nil {
		expires := shown.Leaf.NotAfter
		if now.After(expires) {
			errs = append(errs, fmt.Errorf("redis.tls.cert_file: the certificate expired at %s", expires.Format(time.RFC3339)))
		} else {
			say("redis.tls.cert_file", expires)
		}
	}
	return errors.Join(errs...)
}

// checkRedis reads what is needed to reach Redis, and returns our certificate there. All members of a majority have the
// same files, but not all of them need each one.
func checkRedis(cfg config.Config) (shown *tls.Certificate, err error) {
	type one struct {
		kind string
		config.Redis
	}
	var all []one
	switch cfg.Store.Kind {
	case config.StoreMemory:
	case config.StoreRedlock:
		for _, text := range cfg.Redlock.Members {
			kind, redis, err := cfg.Redis.Member(text)
			if err != nil {
				return nil, err
			}
			all = append(all, one{kind, redis})
		}
	default:
		all = append(all, one{cfg.Store.Kind, cfg.Redis})
	}
	for _, r := range all {
		c, err := redisConfig(r.kind, r.Redis)
		if err != nil {
			return nil, err
		}
		if c.TLS != nil && c.TLS.GetClientCertificate != nil {
			if shown, err = c.TLS.GetClientCertificate(nil); err != nil {
				return nil, err
			}
		}
	}
	return shown, nil
}

// days is a duration for people.
func days(d time.Duration) string {
	if d < 48*time.Hour {
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
