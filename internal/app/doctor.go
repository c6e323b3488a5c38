package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/agreement"
	"github.com/lockd-io/lockd/internal/gate"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/topology"
)

// declaration is how the locks are kept. It must be the same at all replicas that share locks, as must the prefix. It
// does not have the address of a single server, which may have several names. It has the members of a majority, in any
// order, and the quarantine: a member that lost its data must not vote for as long as a lease may last that any replica
// gave there.
func declaration(c topology.Config) string {
	text := "store.kind " + c.Store.Kind
	if c.Store.Kind != topology.Redlock {
		return text
	}
	var members []string
	servers, _ := c.Servers() // the configuration is valid
	for _, s := range servers {
		members = append(members, s.Name())
	}
	slices.Sort(members)
	return fmt.Sprintf("%s, %d of %s, redlock.quarantine %v",
		text, len(members)/2+1, strings.Join(members, " "), c.Redlock.Quarantine)
}

// beginGuard keeps this replica from serving if others keep the same locks in another way, and notices others with the
// same name.
func (a *App) beginGuard(store lock.Store) error {
	shared, ok := lock.As[agreement.Store](store)
	if !ok {
		return nil
	}
	r := agreement.Replica{Text: declaration(a.cfg.Config), Name: a.cfg.Replica, ID: rand.Text(), Clients: func() string {
		digest, _ := a.guard.InForce()
		return digest
	}}
	g, err := agreement.Begin(shared, r, a.log, a.reg, func(err error) { a.fail(differs(err)) })
	if err != nil {
		return differs(err)
	}
	a.agreement = g
	a.cleanups.add("agreement", closeTimeout, func(context.Context) error { g.Close(); return nil })
	return nil
}

func differs(err error) error {
	if errors.Is(err, agreement.ErrDiffers) {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return err
}

// examine tells what is right and wrong with this replica.
func (a *App) examine(late time.Duration, shut bool) []lock.Finding {
	found := []lock.Finding{
		{Severity: lock.SeverityOK, Check: "READY", Detail: "it serves"},
		{Severity: lock.SeverityOK, Check: "RENEWALS", Detail: "renewals are in time"},
		{Severity: lock.SeverityOK, Check: "GATE", Detail: "requests are read as they come"},
	}
	wrong := func(i int, s lock.Severity, detail, remedy string) {
		found[i].Severity, found[i].Detail, found[i].Remedy = s, detail, remedy
	}
	switch err := a.ready(); {
	case errors.Is(err, session.ErrDraining):
		wrong(0, lock.SeverityWarning, "it sends its clients away",
			"lockctl drain --undo takes that back, unless lockd is stopping")
	case err != nil:
		wrong(0, lock.SeverityError, err.Error(), "see what is found at the store")
	}
	if late > gate.LateBound {
		wrong(1, lock.SeverityWarning, fmt.Sprintf("renewals are %v late", late.Round(time.Millisecond)),
			"give lockd or its store more processor time, or spread the clients over more replicas")
	}
	if shut {
		wrong(2, lock.SeverityWarning,
			"requests of sessions are read more slowly: too many wait for the store, or renewals are late",
			"see why the store is slow, or give lockd more processor time")
	}
	if a.agreement != nil {
		found = append(found, a.agreement.Examine()...)
	}
	found = append(append(found, a.examineGuard()...), a.examineCertificates(time.Now())...)
	for i := range found {
		found[i].Node = a.cfg.Replica
	}
	return found
}

// examineGuard tells whether all replicas have the same clients file, whether it is valid, and whether the keys of
// issuers are new.
func (a *App) examineGuard() []lock.Finding {
	var others []string
	if a.agreement != nil {
		others = a.agreement.OtherClients()
	}
	digest, stale := a.guard.InForce()
	if digest == "" && len(others) == 0 {
		return nil
	}
	digest = cmp.Or(digest, "none")
	file := lock.Finding{
		Severity: lock.SeverityOK, Check: "CLIENTS_FILE", Detail: "all replicas have the clients file " + digest,
	}
	switch {
	case stale:
		file.Severity, file.Detail = lock.SeverityWarning, "it has a mistake; the one before is in force: "+digest
		file.Remedy = "correct it: the log has all mistakes, and so has lockd --check-config"
	case len(others) > 0:
		file.Severity = lock.SeverityWarning
		file.Detail = fmt.Sprintf("this replica has %s; others had another one some seconds ago: %s",
			digest, strings.Join(others, ", "))
		file.Remedy = "give all replicas the same file; a new one is used some seconds after it is written"
	}
	keys := lock.Finding{
		Severity: lock.SeverityOK, Check: "SIGNING_KEYS", Detail: "the keys of the issuers of tokens are new",
	}
	if age := a.guard.KeysAge(); age > oldKeys {
		keys.Severity = lock.SeverityWarning
		keys.Detail = fmt.Sprintf("an issuer has not told its keys for %v", age.Round(time.Second))
		keys.Remedy = "see in the log why they cannot be had"
	}
	return []lock.Finding{file, keys}
}

// oldKeys is the age at which keys of issuers are old: they are fetched every 5 minutes.
const oldKeys = time.Hour

// fewDays is when the end of a certificate is near.
const fewDays = 7 * 24 * time.Hour

// examineCertificates tells when the certificates of the addresses expire.
func (a *App) examineCertificates(now time.Time) (found []lock.Finding) {
	for i, e := range endpoints(a.cfg) {
		if a.expires[i] == nil {
			continue
		}
		until := a.expires[i]()
		f := lock.Finding{
			Severity: lock.SeverityOK, Check: "CERTIFICATE",
			Detail: fmt.Sprintf("that of %s expires at %s", e.Key, until.Format(time.RFC3339)),
		}
		if until.Sub(now) < fewDays {
			f.Severity, f.Remedy = lock.SeverityWarning, "write a new one to its files; lockd reads them again"
		}
		found = append(found, f)
	}
	return found
}
