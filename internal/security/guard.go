package security

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/observe"
)

const (
	poll = time.Second // how often the file is read
	// settle is how long a new file must stay as it is before it is used: an editor may be writing it.
	settle = 100 * time.Millisecond
)

// Config is where a Guard finds what it needs.
type Config struct {
	File  string // the clients file
	Audit string // where audit lines go: a file, "stdout", or empty for nowhere
}

// Guard has the clients file that is in force. A nil Guard stands for no clients file: everybody may do everything.
type Guard struct {
	cfg   Config
	log   *zap.Logger
	m     *metrics
	audit *auditor // nil: nowhere
	rules atomic.Pointer[rules]
	stale atomic.Bool     // the file has a mistake now, so an older one is in force
	ctx   context.Context // of the background work
	stop  context.CancelFunc
	wg    sync.WaitGroup

	// Those of run.
	reads         loading
	clients       map[string]*Client // of the file in force
	issuers       map[string]*issuer
	seen, decided [sha256.Size]byte // the content that was seen last, and that was used or refused last

	mu      sync.Mutex // guards the field below
	changed []func()
}

// Open reads the clients file and keeps reading it until Close. Its error has everything that is wrong with the file.
func Open(cfg Config, log *zap.Logger, reg prometheus.Registerer) (*Guard, error) {
	g := &Guard{cfg: cfg, log: log, clients: map[string]*Client{}, issuers: map[string]*issuer{}}
	g.ctx, g.stop = context.WithCancel(context.Background())
	var f *file
	text, err := g.read()
	if err == nil {
		f, err = parse(cfg.File, text)
	}
	to, failed := openAudit(cfg.Audit)
	if failed != nil {
		failed = fmt.Errorf("open the audit: %w", failed)
	}
	if err := errors.Join(err, failed); err != nil {
		if to != nil {
			_ = to.Close() // nothing was written
		}
		g.stop()
		return nil, err
	}
	g.m = newMetrics(reg, g.oldestKeys)
	if to != nil {
		g.audit = newAuditor(to, log, g.m)
	}
	g.seen = sha256.Sum256(text)
	g.decided = g.seen
	g.apply(f)
	g.wg.Go(g.run)
	return g, nil
}

// Close stops reading the file, and writes what is left of the audit.
func (g *Guard) Close() {
	if g == nil {
		return
	}
	g.stop()
	g.wg.Wait()
	g.audit.close()
}

// Identify says who a caller is. Its error is an *UnauthenticatedError. It may wait for the keys of an issuer until ctx
// ends. The file may change before the functions of OnChange know what the caller has begun: ask Still once they do.
func (g *Guard) Identify(ctx context.Context, c Credentials) (Identity, error) {
	if g == nil {
		return Identity{}, nil
	}
	i, err := g.rules.Load().identify(ctx, c, time.Now())
	return i, g.counted(err)
}

// identify says who shows credentials. If there is a token, the certificate does not count.
func (r *rules) identify(ctx context.Context, c Credentials, now time.Time) (Identity, error) {
	switch {
	case c.Authorization != "":
		token, err := bearer(c.Authorization)
		if err != nil {
			return Identity{}, err
		}
		return r.byToken(ctx, token, now)
	case c.Certificate != nil:
		f, until, err := factsOf(c.Certificate, now)
		if err != nil {
			return Identity{}, err
		}
		return r.identity(f, until)
	}
	return r.identity(facts{}, time.Time{})
}

// Still is nil if a caller is still who it was, by the file that is in force now. Else it is an *UnauthenticatedError.
// A key that its issuer has no more ends nothing that was begun with it.
func (g *Guard) Still(i Identity) error {
	if g == nil {
		return nil
	}
	if !i.Until.IsZero() && !time.Now().Before(i.Until) {
		if i.facts.shown == shownCertificate {
			return g.counted(refused(ReasonCertificateEnded, "the certificate expired at %s", i.Expires.Format(time.RFC3339)))
		}
		return g.counted(refused(ReasonTokenExpired, "the token expired at %s", i.Expires.Format(time.RFC3339)))
	}
	c, _, err := g.rules.Load().client(&i.facts)
	if err != nil || c != i.Client {
		return g.counted(refused(ReasonIdentityWithdrawn,
			"the clients file changed, and these credentials are not those of the client %q any more", i.Client.Name()))
	}
	return nil
}

// counted counts an *UnauthenticatedError, and returns err.
func (g *Guard) counted(err error) error {
	if e, is := errors.AsType[*UnauthenticatedError](err); is {
		g.m.unauthenticated.WithLabelValues(e.Reason).Inc()
	}
	return err
}

// OnChange has changed called after each change of what is in force. There is one call of changed at a time.
func (g *Guard) OnChange(changed func()) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed = append(g.changed, changed)
}

// EndsHolds says whether a hold ends when its client may no longer lock the name (on_revoke: end).
func (g *Guard) EndsHolds() bool { return g != nil && g.rules.Load().ends }

// Allowances are how much each client may have. The caller must not change them.
func (g *Guard) Allowances() limits.Allowances {
	if g == nil {
		return nil
	}
	return g.rules.Load().allowances
}

// run reads the file again and again.
func (g *Guard) run() {
	for pause := poll; ; pause = g.look() {
		select {
		case <-g.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// look reads the file, puts new content in force, and says when to look again. It compares the content, because
// Kubernetes replaces files by changing links.
func (g *Guard) look() time.Duration {
	text, err := g.read()
	sum := sha256.Sum256(text)
	if err != nil {
		sum = sha256.Sum256([]byte(err.Error()))
	}
	if sum == g.decided {
		g.seen = sum
		return poll
	}
	if sum != g.seen {
		g.seen = sum
		return settle
	}
	g.decided = sum
	var f *file
	if err == nil {
		f, err = parse(g.cfg.File, text)
	}
	if err != nil {
		g.m.valid.Set(0)
		g.stale.Store(true)
		g.log.Warn("the new clients file cannot be used; going on with the one before",
			zap.String(observe.KeyFile, g.cfg.File), zap.Error(err))
		g.Audit(Event{What: EventFileRefused, Detail: err.Error()})
		return poll
	}
	g.apply(f)
	return poll
}

func (g *Guard) read() ([]byte, error) {
	text, err := g.reads.do(g.ctx, func(context.Context) ([]byte, error) { return readBounded(g.cfg.File, maxFileBytes) })
	if errors.Is(err, errSlow) {
		err = fmt.Errorf("read %s: %w", g.cfg.File, err)
	}
	return text, err
}

// apply puts a file in force. A Client that is not in it has no rights any more; if its name comes back, that is a new
// Client.
func (g *Guard) apply(f *file) {
	in := make(map[string]bool, len(f.clients))
	for i := range f.clients {
		e := &f.clients[i]
		in[e.name] = true
		if c := g.clients[e.name]; c != nil {
			c.now.Store(&e.rights)
		} else {
			g.clients[e.name] = newClient(e.name, e.rights)
		}
	}
	for name, c := range g.clients {
		if !in[name] {
			c.now.Store(&rights{})
			delete(g.clients, name)
		}
	}
	for name, s := range g.issuers {
		if from, there := f.sources[name]; !there || from != s.from {
			s.stop()
			delete(g.issuers, name)
		}
	}
	for name, from := range f.sources {
		if g.issuers[name] == nil {
			s := newIssuer(g.ctx, name, from, g.log, g.m)
			g.issuers[name] = s
			g.wg.Go(s.run)
		}
	}
	g.rules.Store(newRules(f, g.clients, g.issuers))

	g.stale.Store(false)
	g.m.valid.Set(1)
	g.m.applied.SetToCurrentTime()
	g.m.clients.Set(float64(len(f.clients)))
	g.log.Info("the clients file is in force",
		zap.String(observe.KeyFile, g.cfg.File), zap.Int(observe.KeyCount, len(f.clients)),
		zap.String(observe.KeyDigest, f.digest))
	g.Audit(Event{What: EventFileApplied, Detail: fmt.Sprintf("%s of %s", f.digest, clients(len(f.clients)))})
	g.mu.Lock()
	changed := g.changed
	g.mu.Unlock()
	for _, call := range changed {
		call()
	}
}

// clients is n clients, for people.
func clients(n int) string {
	if n == 1 {
		return "1 client"
	}
	return fmt.Sprintf("%d clients", n)
}

// InForce is the clients file that is in force: the first 12 hex digits of its SHA-256, empty without a file. stale
// says that the file has a mistake now.
func (g *Guard) InForce() (digest string, stale bool) {
	if g == nil {
		return "", false
	}
	return g.rules.Load().digest, g.stale.Load()
}

// KeysAge is the age of the oldest keys of an issuer; 0 if there is no issuer.
func (g *Guard) KeysAge() time.Duration {
	if g == nil {
		return 0
	}
	return g.oldestKeys()
}

func (g *Guard) oldestKeys() (oldest time.Duration) {
	r := g.rules.Load()
	if r == nil {
		return 0
	}
	now := time.Now()
	for _, t := range r.issuers {
		oldest = max(oldest, t.keys.age(now))
	}
	return oldest
}

// Clients are those of the file in force, in its order. The caller must not change the slice.
func (g *Guard) Clients() []*Client {
	if g == nil {
		return nil
	}
	return g.rules.Load().clients
}
