package security

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/observe"
)

// file is what stands in a clients file. It is never changed.
//
// Of static tokens the file has the plain SHA-256, not a slow hash as for passwords. So a token must be random, with
// 128 bits at least, or it could be found from its hash. lockd cannot check that.
type file struct {
	digest   string // the beginning of the SHA-256 of its text
	clients  []entry
	sources  map[string]source // by the issuer
	fallback string            // the name of the client that all others are; empty: none
	ends     bool              // a hold ends when its client may no longer lock the name
}

// entry is one client.
type entry struct {
	name   string
	certs  []item // patterns
	hashes []item
	jwts   []jwtRule
	rights rights
	quota  limits.Allowance
}

// jwtRule says which tokens mean a client.
type jwtRule struct {
	issuer, audience string
	subject          patterns
}

// source is where the keys of an issuer come from.
type source struct {
	jwks  string // a path, or a URL; empty: the issuer says where
	ca    string // PEM file of the authorities for the URL; empty: those of the system
	token string // file with a token for the URL
}

func (s source) isFile() bool { return s.jwks != "" && !strings.Contains(s.jwks, "://") }

const none = "none" // no client

// Check reads a clients file, and the files of keys and authorities that it names. It asks no issuer. Its error has all
// mistakes.
func Check(path string) error {
	text, err := readBounded(path, maxFileBytes)
	if err != nil {
		return err
	}
	f, err := parse(path, text)
	if err != nil {
		return err
	}
	var errs []error
	for _, issuer := range slices.Sorted(maps.Keys(f.sources)) {
		if err := f.sources[issuer].check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: the issuer %q: %w", path, issuer, err))
		}
	}
	return errors.Join(errs...)
}

// check reads the files that s names.
func (s source) check() error {
	if !s.isFile() {
		_, err := s.client()
		return err
	}
	text, err := readBounded(s.jwks, maxKeysBytes)
	if err == nil {
		_, err = newKeySet(text)
	}
	if err != nil {
		return fmt.Errorf("jwks %s: %w", s.jwks, err)
	}
	return nil
}

// readBounded reads a file, and fails if it is longer than bound.
func readBounded(path string, bound int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return readAll(f, path, bound)
}

func readAll(from io.Reader, name string, bound int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, bound+1))
	if err == nil && int64(len(text)) > bound {
		err = fmt.Errorf("%s has more than %d bytes", name, bound)
	}
	return text, err
}

// digestOf is the beginning of what sha256sum prints: it tells files apart, for people.
func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:12]
}

// parse reads the text of a clients file.
func parse(path string, text []byte) (*file, error) {
	var doc, next yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p := parser{reader: reader{path: path}, file: &file{digest: digestOf(text), sources: map[string]source{}}}
	p.lines, p.issuers = map[string]int{}, map[string]int{}
	if d.Decode(&next) == nil {
		p.add(next.Line, "there must be one document only")
	}
	for _, root := range doc.Content {
		p.keys(root, "the clients file",
			key{"clients", p.clients}, key{"default", p.fallback}, key{"on_revoke", p.onRevoke})
	}
	if len(p.file.clients) == 0 && len(p.found) == 0 {
		p.add(1, "there must be clients") // probably it is being written: it would lock everybody out
	}
	p.checkTogether()
	if err := p.err(); err != nil {
		return nil, err
	}
	return p.file, nil
}

// parser makes a file from YAML.
type parser struct {
	reader
	*file
	lines        map[string]int // of clients, by their names
	issuers      map[string]int // their first lines
	fallbackLine int
}

func (p *parser) clients(n *yaml.Node) {
	all := p.list(n)
	if len(all) > maxClients {
		p.add(n.Line, "there are more than %d clients", maxClients)
		return
	}
	for _, one := range all {
		p.client(one)
	}
}

func (p *parser) client(n *yaml.Node) {
	var e entry
	var name item
	p.keys(n, "a client",
		key{"name", func(n *yaml.Node) { name = item{p.text(n, "name"), n.Line} }},
		key{"cert", func(n *yaml.Node) { e.certs = p.texts(n, "cert") }},
		key{"jwt", func(n *yaml.Node) {
			for _, one := range p.list(n) {
				if p.isRoom(one.Line) {
					p.jwt(one, &e)
				}
			}
		}},
		key{"token_sha256", func(n *yaml.Node) { e.hashes = p.texts(n, "token_sha256") }},
		key{"lock", p.patterns(&e.rights.lock, "lock")},
		key{"look", p.patterns(&e.rights.look, "look")},
		key{"deny", p.patterns(&e.rights.deny, "deny")},
		key{"admin", func(n *yaml.Node) { e.rights.acts = p.acts(n) }},
		key{"quota", func(n *yaml.Node) { p.quota(n, &e.quota) }},
	)
	e.name = name.text
	line := cmp.Or(name.line, n.Line)
	switch before := p.lines[e.name]; {
	case !isName(e.name):
		p.add(line, "a client must have a name of 1 to 128 readable bytes, other than %q", none)
	case before != 0:
		p.add(line, "there is a client %q already in line %d", e.name, before)
	default:
		p.lines[e.name] = line
	}
	p.file.clients = append(p.file.clients, e)
}

func isName(s string) bool {
	return s != "" && s != none && len(s) <= 128 && utf8.ValidString(s) && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || observe.Harmful(r) })
}

func (p *parser) acts(n *yaml.Node) (all []Act) {
	for _, one := range p.texts(n, "admin") {
		if !slices.Contains(acts, Act(one.text)) {
			p.add(one.line, "admin: %q must be one of %q", one.text, acts)
			continue
		}
		all = append(all, Act(one.text))
	}
	return all
}

func (p *parser) quota(n *yaml.Node, q *limits.Allowance) {
	p.keys(n, "quota",
		key{"sessions", p.count(&q.Sessions, "sessions")},
		key{"locks", p.count(&q.Locks, "locks")},
		key{"waiting", p.count(&q.Waiting, "waiting")},
		key{"watches", p.count(&q.Watches, "watches")},
		key{"requests_per_second", p.count(&q.RequestsPerSecond, "requests_per_second")},
		key{"streams", p.count(&q.Streams, "streams")},
	)
}

func (p *parser) jwt(n *yaml.Node, e *entry) {
	var j jwtRule
	var s source
	text := func(to *string, what string) key {
		return key{what, func(n *yaml.Node) { *to = p.text(n, what) }}
	}
	p.keys(n, "jwt", text(&j.issuer, "issuer"), text(&j.audience, "audience"), key{"sub", p.patterns(&j.subject, "sub")},
		text(&s.jwks, "jwks"), text(&s.ca, "ca_file"), text(&s.token, "token_file"))
	if j.issuer == "" || j.audience == "" || len(j.subject.all) == 0 {
		p.add(n.Line, "jwt must have issuer, audience and sub")
		return
	}
	e.jwts = append(e.jwts, j)
	p.issuers[j.issuer] = cmp.Or(p.issuers[j.issuer], n.Line)
	switch before, there := p.sources[j.issuer]; {
	case s != source{} && there && before != source{} && before != s:
		p.add(n.Line, "jwks, ca_file and token_file of the issuer %q are others above", j.issuer)
	case s != source{} || !there:
		p.sources[j.issuer] = s
	}
	if s.isFile() && (s.ca != "" || s.token != "") {
		p.add(n.Line, "ca_file and token_file are for a jwks with https://")
	}
	if s.jwks != "" && !s.isFile() && !isSafe(s.jwks) {
		p.add(n.Line, "jwks must be a path or https://, without a password; http:// is for loopback addresses")
	}
}

// isSafe says whether what comes from a URL can only come from its host.
func isSafe(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

func (p *parser) fallback(n *yaml.Node) {
	if name := p.text(n, "default"); name != none {
		p.file.fallback = name
	}
	p.fallbackLine = n.Line
}

func (p *parser) onRevoke(n *yaml.Node) {
	switch p.text(n, "on_revoke") {
	case "end":
		p.ends = true
	case "keep":
	default:
		p.add(n.Line, "on_revoke must be end or keep")
	}
}

// checkTogether checks what the parts of a file say together.
func (p *parser) checkTogether() {
	certs, tokens := map[string]int{}, map[string]int{}
	for i := range p.file.clients {
		e := &p.file.clients[i]
		for _, c := range e.certs {
			if p.isPattern(c, "cert") {
				p.checkOnce(certs, i, c, "cert")
			}
		}
		for _, h := range e.hashes {
			if hash, err := hex.DecodeString(h.text); err != nil || len(hash) != 32 {
				p.add(h.line, "token_sha256 must be the SHA-256 of a token, 64 hex digits")
				continue
			}
			p.checkOnce(tokens, i, item{strings.ToLower(h.text), h.line}, "token_sha256")
		}
		if len(e.certs)+len(e.hashes)+len(e.jwts) == 0 && e.name != p.file.fallback && p.lines[e.name] != 0 {
			p.add(p.lines[e.name], "nobody can be the client %q: it has no cert, jwt or token_sha256", e.name)
		}
	}
	if p.file.fallback != "" && p.lines[p.file.fallback] == 0 {
		p.add(p.fallbackLine, "default must be %q or the name of a client", none)
	}
	for issuer, s := range p.sources {
		if s.jwks == "" && !isSafe(issuer) {
			p.add(p.issuers[issuer], "the issuer %q must have a jwks, because it is no https:// address to ask for one", issuer)
		}
	}
	if len(p.sources) > maxIssuers {
		p.add(1, "there are more than %d issuers", maxIssuers)
	}
}

// checkOnce notes a mistake if two clients have the same credentials.
func (p *parser) checkOnce(seen map[string]int, client int, i item, what string) {
	if before, there := seen[i.text]; there && before != client {
		p.add(i.line, "%s: the client %q has the same", what, p.file.clients[before].name)
		return
	}
	seen[i.text] = client
}
