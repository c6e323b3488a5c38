package security

import (
	"encoding/hex"
	"slices"
	"sync"

	"github.com/lockd-io/lockd/internal/limits"
)

// rules are a clients file in force: which credentials mean which client. Only kept changes.
type rules struct {
	digest     string    // of the file
	clients    []*Client // as in the file
	certs      firsts
	tokens     map[[32]byte]*Client // by the SHA-256
	issuers    map[string]*trusted
	fallback   *Client // nil: callers that match no client are refused
	ends       bool
	allowances limits.Allowances
	kept       kept
}

// trusted is an issuer of tokens that the clients file names.
type trusted struct {
	keys *issuer
	by   map[string]*firsts // by the audience: which client has which subjects
}

// newRules makes rules of a file, with the Clients and issuers by their names.
func newRules(f *file, clients map[string]*Client, issuers map[string]*issuer) *rules {
	r := &rules{
		digest: f.digest, certs: newFirsts(), tokens: map[[32]byte]*Client{}, issuers: map[string]*trusted{},
		fallback: clients[f.fallback], ends: f.ends, allowances: limits.Allowances{},
	}
	for i := range f.clients {
		e := &f.clients[i]
		c := clients[e.name]
		r.clients = append(r.clients, c)
		r.allowances[c.Tenant()] = e.quota
		for _, pattern := range e.certs {
			r.certs.add(pattern.text, i)
		}
		for _, text := range e.hashes {
			hash, _ := hex.DecodeString(text.text) // it was read already
			r.tokens[[32]byte(hash)] = c
		}
		for _, j := range e.jwts {
			t := r.issuers[j.issuer]
			if t == nil {
				t = &trusted{issuers[j.issuer], map[string]*firsts{}}
				r.issuers[j.issuer] = t
			}
			if t.by[j.audience] == nil {
				t.by[j.audience] = new(newFirsts())
			}
			for _, pattern := range j.subject.all {
				t.by[j.audience].add(pattern, i)
			}
		}
	}
	return r
}

// client returns the client that credentials mean, and how it was recognised. Its error is an *UnauthenticatedError.
func (r *rules) client(f *facts) (c *Client, as string, err error) {
	switch f.shown {
	case shownNothing:
		if r.fallback == nil {
			return nil, "", refused(ReasonNoCredentials, "a certificate or a token is needed")
		}
		return r.fallback, "no credentials", nil
	case shownToken:
		if c = r.tokens[f.token]; c == nil {
			return nil, "token", refused(ReasonTokenInvalid, "no client in the clients file has this token")
		}
		return c, "token", nil
	case shownCertificate:
		c, as = r.byCertificate(f)
	case shownJWT:
		t := r.issuers[f.issuer]
		if t == nil || !t.isHeard(f.claims.audience) {
			return nil, "", refused(ReasonTokenInvalid, "no client in the clients file has its issuer with its audience")
		}
		if n, found := t.bySubject(f); found {
			c = r.clients[n]
		}
		as = by("jwt", f.claims.subject)
	}
	if c == nil {
		c = r.fallback
	}
	if c == nil {
		return nil, as, refused(ReasonClientUnknown, "no client in the clients file is meant by the %s", as)
	}
	return c, as, nil
}

func (r *rules) byCertificate(f *facts) (*Client, string) {
	n, name, found := r.certs.of(f.names)
	if found {
		return r.clients[n], by("certificate", name)
	}
	return nil, byNames(f.names)
}

// isHeard says whether a client of the file has one of the audiences.
func (t *trusted) isHeard(audience []string) bool {
	return slices.ContainsFunc(audience, func(a string) bool { return t.by[a] != nil })
}

// bySubject is the number of the first client that has one of the audiences and the subject.
func (t *trusted) bySubject(f *facts) (client int, found bool) {
	for _, audience := range f.claims.audience {
		if of := t.by[audience]; of != nil {
			n, _, is := of.of([]string{f.claims.subject})
			if is && (!found || n < client) {
				client, found = n, true
			}
		}
	}
	return client, found
}

// How many verified tokens are kept, and how many bytes they may have together.
const (
	maxKept      = 10_000
	maxKeptBytes = 16 << 20
)

// kept are tokens whose signatures were verified, so that unary calls need not verify them again. The rules of the next
// file begin with none. The zero value is ready.
type kept struct {
	mu    sync.RWMutex // guards the fields below
	all   map[[32]byte]*verified
	bytes int // of all
}

// verified is a good token, with the client that it means. It is never changed.
type verified struct {
	identity Identity
	keys     *issuer
	key      string // the thumbprint of the key
	bytes    int    // of the token, which bounds what is kept of it
}

func (k *kept) get(sum [32]byte) *verified {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.all[sum]
}

// put keeps a token. If there is no room, it drops any others.
func (k *kept) put(sum [32]byte, v *verified) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = make(map[[32]byte]*verified)
	}
	k.dropLocked(sum)
	for one := range k.all {
		if len(k.all) < maxKept && k.bytes+v.bytes <= maxKeptBytes {
			break
		}
		k.dropLocked(one)
	}
	k.all[sum] = v
	k.bytes += v.bytes
}

func (k *kept) drop(sum [32]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dropLocked(sum)
}

func (k *kept) dropLocked(sum [32]byte) {
	if v := k.all[sum]; v != nil {
		k.bytes -= v.bytes
		delete(k.all, sum)
	}
}
