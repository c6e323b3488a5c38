package security

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/observe"
)

const (
	maxKeysBytes = 1 << 20 // of what an issuer says
	maxAsking    = 1000    // how many may wait for the keys of an issuer at a time
)

// pace is how often the keys of an issuer are fetched.
type pace struct {
	always time.Duration // in any case
	failed time.Duration // after a failure
	asked  time.Duration // at most, because of tokens with unknown keys
}

var (
	paceOfURL  = pace{always: 5 * time.Minute, failed: 10 * time.Second, asked: 10 * time.Second}
	paceOfFile = pace{always: time.Second, failed: time.Second, asked: time.Second}
)

// issuer has the public keys of an issuer of tokens. Only run fetches them: whoever needs an unknown key waits for
// that, with all others who do. When a fetch fails, the known keys stay.
type issuer struct {
	name  string
	from  source
	pace  pace
	log   *zap.Logger
	m     *metrics
	ended context.Context // of run
	stop  context.CancelFunc
	wake  chan struct{}
	loads loading // of run

	set    atomic.Pointer[keySet] // nil until the first keys are fetched
	asking atomic.Int64           // how many wait

	mu      sync.Mutex // guards the fields below
	asked   time.Time  // when somebody last wanted an unknown key
	busy    bool       // a fetch is under way, or begins at once
	done    chan struct{}
	had     time.Time // when keys were last fetched; at first, when the issuer was made
	trouble string    // why the last fetch failed
}

func newIssuer(ctx context.Context, name string, from source, log *zap.Logger, m *metrics) *issuer {
	s := &issuer{
		name: name, from: from, pace: paceOfURL, log: log, m: m, busy: true, wake: make(chan struct{}, 1),
		done: make(chan struct{}), had: time.Now(),
	}
	if from.isFile() {
		s.pace = paceOfFile
	}
	s.ended, s.stop = context.WithCancel(ctx)
	return s
}

// keySet are the keys that an issuer had at some time. It is never changed.
type keySet struct {
	all    []publicKey
	byID   map[string][]publicKey
	thumbs map[string]struct{}
	sum    [sha256.Size]byte // of the text they were read from
}

type publicKey struct {
	public    any
	algorithm string // empty: any that its type allows
	thumb     string // tells keys apart
}

func (k publicKey) isFor(algorithm string) bool { return k.algorithm == "" || k.algorithm == algorithm }

var errNoKey = errors.New("there is no public key for signatures in it")

// newKeySet reads a JSON Web Key Set. It leaves out keys of unknown kinds, keys for encryption, and secrets.
func newKeySet(text []byte) (*keySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("it is no JSON Web Key Set")
	}
	s := &keySet{byID: map[string][]publicKey{}, thumbs: map[string]struct{}{}, sum: sha256.Sum256(text)}
	for _, one := range set.Keys {
		var k jose.JSONWebKey
		if json.Unmarshal(one, &k) != nil || !k.IsPublic() || !k.Valid() || k.Use != "" && k.Use != "sig" {
			continue
		}
		thumb, err := k.Thumbprint(crypto.SHA256)
		if err != nil {
			continue
		}
		key := publicKey{public: k.Key, algorithm: k.Algorithm, thumb: string(thumb)}
		s.all = append(s.all, key)
		s.byID[k.KeyID] = append(s.byID[k.KeyID], key)
		s.thumbs[key.thumb] = struct{}{}
	}
	if len(s.all) == 0 {
		return nil, errNoKey
	}
	return s, nil
}

// find returns the keys with an id. A token without an id is for the issuer's only key.
func (s *keySet) find(id string) []publicKey {
	switch {
	case s == nil:
		return nil
	case id != "":
		return s.byID[id]
	case len(s.all) == 1:
		return s.all
	}
	return nil
}

// has says whether a key is still the issuer's.
func (s *issuer) has(thumb string) bool {
	set := s.set.Load()
	if set == nil {
		return false
	}
	_, has := set.thumbs[thumb]
	return has
}

// find returns the keys with an id. If there are none, it waits for a fetch. Its error is an *UnauthenticatedError.
func (s *issuer) find(ctx context.Context, id string) ([]publicKey, error) {
	if found := s.set.Load().find(id); found != nil {
		return found, nil
	}
	if err := s.ask(ctx); err != nil {
		return nil, err
	}
	set := s.set.Load()
	if set == nil {
		return nil, refused(ReasonKeysUnavailable,
			"the keys of the issuer of the token could not be had, the log of lockd says why; try again")
	}
	if found := set.find(id); found != nil {
		return found, nil
	}
	return nil, refused(ReasonTokenInvalid, "the issuer of the token does not have its key")
}

// ask waits for a fetch of the keys. It begins one, if none is under way and none was asked for just now.
func (s *issuer) ask(ctx context.Context) error {
	s.mu.Lock()
	if !s.busy {
		pause := s.pace.asked
		if s.set.Load() == nil {
			pause = min(pause, time.Second) // nobody can be let in before
		}
		if now := time.Now(); now.Sub(s.asked) >= pause {
			s.asked, s.busy = now, true
			s.wake <- struct{}{} // there is room: busy was false
		}
	}
	busy, done := s.busy, s.done
	s.mu.Unlock()
	if !busy {
		return nil
	}
	defer s.asking.Add(-1)
	if s.asking.Add(1) > maxAsking {
		return refused(ReasonKeysUnavailable, "too many wait for the keys of the issuer of the token; try again")
	}
	select {
	case <-done:
	case <-s.ended.Done():
	case <-ctx.Done():
		return refused(ReasonKeysUnavailable, "the issuer of the token did not give its keys in time; try again")
	}
	return nil
}

// run fetches the keys again and again.
func (s *issuer) run() {
	for {
		pause := s.refresh()
		select {
		case <-s.ended.Done():
			return
		case <-time.After(pause):
			s.mu.Lock()
			s.busy = true
			s.mu.Unlock()
		case <-s.wake:
		}
	}
}

// refresh fetches the keys, and says when to do so next.
func (s *issuer) refresh() time.Duration {
	text, err := s.loads.do(s.ended, func(ctx context.Context) ([]byte, error) { return s.from.load(ctx, s.name) })
	before := s.set.Load()
	isNew := err == nil && (before == nil || before.sum != sha256.Sum256(text))
	if isNew {
		var set *keySet
		if set, err = newKeySet(text); err == nil {
			s.set.Store(set)
		}
	}
	if s.ended.Err() != nil {
		return 0
	}
	s.mu.Lock()
	was := s.trouble
	s.trouble = ""
	if err == nil {
		s.had = time.Now()
	} else {
		s.trouble = err.Error()
	}
	trouble := s.trouble
	s.mu.Unlock()
	s.say(was, trouble, isNew)

	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.wake: // from an ask while the pause ended: this fetch was for it
	default:
	}
	s.busy = false
	close(s.done)
	s.done = make(chan struct{})
	if err != nil {
		return s.pace.failed
	}
	return s.pace.always
}

// say logs and counts the result of a fetch. It says nothing of a file that has not changed.
func (s *issuer) say(was, trouble string, isNew bool) {
	log := s.log.With(zap.String(observe.KeyIssuer, s.name))
	switch {
	case trouble == "" && isNew:
		log.Info("the keys of an issuer of tokens are new")
	case trouble == "" && was != "":
		log.Info("the keys of an issuer of tokens can be had again")
	case trouble != "" && trouble != was:
		log.Warn("the keys of an issuer of tokens cannot be had; going on with those before",
			zap.String(observe.KeyCause, trouble))
	}
	if trouble != "" {
		s.m.refreshes.WithLabelValues(resultFailed).Inc()
	} else if isNew || !s.from.isFile() {
		s.m.refreshes.WithLabelValues(resultOK).Inc()
	}
}

// age is how long ago the keys were fetched.
func (s *issuer) age(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.had)
}
