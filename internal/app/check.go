package app

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/certs"
	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/console"
	"github.com/lockd-io/lockd/internal/security"
)

// Check reads every file that a configuration names, as New does, and connects to nothing. Its error has all that is
// wrong.
func Check(cfg config.Config) error {
	var errs []error
	for _, e := range endpoints(cfg) {
		if !e.TLS.Enabled() {
			continue
		}
		if _, err := certs.New(e.TLS, zap.NewNop()); err != nil {
			errs = append(errs, fmt.Errorf("%s.%w", e.Section, err))
		}
	}
	if file := string(cfg.Console.KeyFile); file != "" && cfg.ConsoleListen != "" {
		if _, err := console.ReadKey(file); err != nil {
			errs = append(errs, fmt.Errorf("console.key_file: %w", err))
		}
	}
	if file := cfg.Security.ClientsFile; file != "" {
		if err := security.Check(file); err != nil {
			errs = append(errs, fmt.Errorf("security.clients_file: %w", err))
		}
		if err := security.CheckAudit(cfg.Security.Audit); err != nil {
			errs = append(errs, fmt.Errorf("security.audit: %w", err))
		}
	}
	all, err := backends(cfg.Config)
	errs = append(errs, err)
	if err == nil && len(all) > 0 { // all members of a majority have the same certificate
		errs = append(errs, checkClientCertificate(all[0]))
	}
	return errors.Join(errs...)
}

func checkClientCertificate(b backend) error {
	if b.TLS == nil || b.TLS.GetClientCertificate == nil {
		return nil
	}
	shown, err := b.TLS.GetClientCertificate(nil)
	if err == nil && time.Now().After(shown.Leaf.NotAfter) {
		err = fmt.Errorf("redis.tls.cert_file: the certificate expired at %s", shown.Leaf.NotAfter.Format(time.RFC3339))
	}
	return err
}
