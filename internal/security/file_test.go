package security

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockd-io/lockd/internal/limits"
)

// good has all that a clients file may have.
const good = `
clients:
- name: billing
  cert: "spiffe://prod/ns/billing/*"
  lock: ["invoice:*", rates]
  look: ["*"]
  quota: {sessions: 50, locks: 5000, waiting: 2000, watches: 1000, requests_per_second: 2000, streams: 100}
- name: ci
  jwt: {issuer: "https://issuer.example", audience: lockd, sub: "repo:acme/*"}
  lock: "ci:*"
  deny: ["ci:prod-*"]
- name: ops
  cert: [ops, "ops.*"]
  jwt:
  - issuer: "https://issuer.example"
    audience: lockd
    sub: [ops, opsers]
    jwks: "https://keys.example"
    ca_file: a
    token_file: b
  - {issuer: other, audience: lockd, sub: "*", jwks: keys.json}
  token_sha256: ["` + hashOfSecret + `"]
  lock: ["*"]
  admin: [force, limit, drain]
- name: guests
default: guests
on_revoke: end
`

const hashOfSecret = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b" // of "secret"

func TestFileIsReadAsItIsWritten(t *testing.T) {
	f, err := parse("clients.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.clients) != 4 || f.fallback != "guests" || !f.ends || len(f.sources) != 2 {
		t.Errorf("got %+v", f)
	}
	want := limits.Allowance{
		Sessions: 50, Locks: 5000, Waiting: 2000, Watches: 1000, RequestsPerSecond: 2000, Streams: 100,
	}
	if got := f.clients[0].quota; got != want {
		t.Errorf("got the quota %+v", got)
	}
	if got := f.sources["https://issuer.example"]; got != (source{jwks: "https://keys.example", ca: "a", token: "b"}) {
		t.Errorf("got the source %+v", got)
	}
	r := f.clients[2].rights
	if fmt.Sprint(r.acts, r.lock.all, f.clients[1].rights.deny.all) != "[force limit drain] [*] [ci:prod-*]" {
		t.Errorf("got the rights %+v", r)
	}
}

// TestFileHasAllItsFindingsAtOnce has a mistake, or none, in each line; after # is what is said of it.
func TestFileHasAllItsFindingsAtOnce(t *testing.T) {
	text := `clients:
- name: a
  cert: [x, "x*y"] # cert: "x*y" must be a name
  locks: ["*"] # a client has no key "locks", but: name, cert
  lock: ["a**", {a: b}] # lock must be a text # lock: "a**" must be a name
  lock: [] # a client has the key "lock" already in line 5
  token_sha256: [abc] # token_sha256 must be the SHA-256 of a token
  admin: [force, root] # admin: "root" must be one of
  quota: {sessions: 0, locks: 1.5, x: 1} # sessions must be a whole number # locks must be # quota has no key "x"
- name: a # there is a client "a" already in line 2
  cert: x # cert: the client "a" has the same
- name: none # a client must have a name
  cert: y
- name: "a\u202eb" # a client must have a name
  cert: z
- name: b # nobody can be the client "b"
- name: c
  cert: x # cert: the client "a" has the same
- name: d
  jwt:
  - {issuer: "http://i", audience: l, sub: a} # the issuer "http://i" must have a jwks
  - {issuer: "https://j", audience: l} # jwt must have issuer, audience and sub
  - {issuer: "https://k", audience: l, sub: a, jwks: "http://k.example"} # jwks must be a path or https://
  - {issuer: "https://k", audience: l, sub: a, jwks: "http://127.0.0.1:1"} # are others above
  - {issuer: l, audience: l, sub: a, jwks: "keys", ca_file: b} # ca_file and token_file are for a jwks with https://
  - {issuer: m, audience: l, sub: a, jwks: "https://me:pw@k.example"} # jwks must be a path or https://
- name: e
  token_sha256: ["` + strings.ToUpper(hashOfSecret) + `"]
- name: f
  token_sha256: ["` + hashOfSecret + `"] # token_sha256: the client "e" has the same
- [] # a client must have keys # a client must have a name
- &self {name: g, cert: *self} # cert must be a text # nobody can be the client "g"
on_revoke: maybe # on_revoke must be end or keep
default: nobody # default must be "none" or the name of a client
more: 1 # the clients file has no key "more"
`
	_, err := parse("clients.yaml", []byte(text))
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	got := strings.Split(err.Error(), "\n")
	for i, line := range strings.Split(text, "\n") {
		for _, want := range strings.Split(line, " # ")[1:] {
			if len(got) == 0 || !strings.HasPrefix(got[0], fmt.Sprintf("clients.yaml: line %d: ", i+1)) ||
				!strings.Contains(got[0], want) {
				t.Fatalf("line %d: want %q, got %q", i+1, want, got)
			}
			got = got[1:]
		}
	}
	if len(got) != 0 {
		t.Errorf("and more: %q", got)
	}
	for _, secret := range []string{"abc", hashOfSecret, "pw"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error has %q: %v", secret, err)
		}
	}
}

func TestFileIsRefusedAsAWhole(t *testing.T) {
	many := "clients:\n- {name: a, cert: &a [" + strings.Repeat(`"x",`, maxItems/10) + "]}\n"
	for text, want := range map[string]string{
		"":                   "there must be clients",
		"clients: []":        "there must be clients",
		"clients":            "the clients file must have keys",
		"clients: [\n":       "line",
		"a: 1\n---\nb: 1":    "there must be one document only",
		good + "---\na: 1\n": "there must be one document only",
		"clients: [" + strings.Repeat("{},", maxClients+1) + "]": "more than 10000 clients",
		many + strings.Repeat("- {lock: *a}\n", 90):              "more than 100000 patterns",
	} {
		if _, err := parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", text, err, want)
		}
	}
}

// FuzzClientsFile feeds files: one is refused, or allows its clients what a pattern of theirs says and no more.
func FuzzClientsFile(f *testing.F) {
	f.Add(good, "ci:a")
	for _, s := range []string{
		"", "- x", "clients: &a [*a]", "clients: [{name: a, lock: &l [a, *l]}]", "clients: {a: {}}", "? {a: b}\n: c",
		"clients: [{name: a, cert: a, lock: [a*, ab], deny: [abc]}]", "<<: {default: a}", "clients: !!int 3",
	} {
		f.Add(s, "abc")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		file, err := parse("f", []byte(text))
		if err != nil {
			return
		}
		for i := range file.clients {
			e := &file.clients[i]
			c := newClient(e.name, e.rights)
			r := c.Rights()
			lock := matches(r.Lock, name) && !matches(r.Deny, name)
			look := (matches(r.Lock, name) || matches(r.Look, name)) && !matches(r.Deny, name)
			if (c.MayLock(name) == nil) != lock || c.Sees(name) != look {
				t.Errorf("%q: %+v: lock %v, look %v", name, r, c.MayLock(name), c.Sees(name))
			}
		}
	})
}
