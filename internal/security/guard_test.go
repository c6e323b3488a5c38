package security

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lockd-io/lockd/internal/limits"
)

const twoTeams = `
clients:
- {name: a, cert: a, lock: ["a:*"], quota: {locks: 7}}
- {name: b, cert: b, lock: ["b:*"]}
`

// TestFileIsAppliedToWhoIsThere goes through changes of a file.
func TestFileIsAppliedToWhoIsThere(t *testing.T) {
	t.Parallel()
	r := newRig(t, twoTeams)
	changes := make(chan struct{}, 100)
	r.OnChange(func() { changes <- struct{}{} })
	apply := func(text string) {
		t.Helper()
		write(t, r.path, text)
		<-changes
	}
	a, err := r.Identify(t.Context(), Credentials{Certificate: cert("a", "", "")})
	must(t, err)
	b, err := r.Identify(t.Context(), Credentials{Certificate: cert("b", "", "")})
	must(t, err)
	if got := r.Allowances()[a.Client.Tenant()]; got != (limits.Allowance{Locks: 7}) {
		t.Errorf("got the allowance %+v", got)
	}

	apply(strings.NewReplacer(`"a:*"`, `"c:*"`, "- {name: b, cert: b", "- {name: c, cert: b", "locks: 7", "locks: 8").
		Replace(twoTeams) + "on_revoke: end\n")
	if a.Client.MayLock("a:1") == nil || a.Client.MayLock("c:1") != nil || r.Still(a) != nil {
		t.Errorf("the new rights are not those in the file: %v", r.Still(a))
	}
	if b.Client.Sees("b:1") || b.Client.Sees("c:1") {
		t.Error("a client that is gone may do something")
	}
	if e, is := errors.AsType[*UnauthenticatedError](r.Still(b)); !is || e.Reason != ReasonIdentityWithdrawn {
		t.Errorf("a client that is gone is still it: %v", r.Still(b))
	}
	if r.Allowances()[a.Client.Tenant()].Locks != 8 || !r.EndsHolds() {
		t.Errorf("got the allowances %+v", r.Allowances())
	}

	for range 2 { // it is said once for each content
		write(t, r.path, twoTeams+"- {}\n")
		until(t, "the broken file was seen", func() bool { return valueOf(r.m.valid) == 0 })
	}
	if a.Client.MayLock("c:1") != nil || r.Still(a) != nil || r.log.FilterMessageSnippet("cannot be used").Len() != 1 {
		t.Errorf("a broken file did something: %v", r.log.All())
	}

	apply(twoTeams)
	if valueOf(r.m.valid) != 1 || valueOf(r.m.clients) != 2 || len(r.clients) != 2 {
		t.Errorf("%v clients are in the file, %d are known", valueOf(r.m.clients), len(r.clients))
	}
	again, err := r.Identify(t.Context(), Credentials{Certificate: cert("b", "", "")})
	if err != nil || again.Client.MayLock("b:1") != nil || r.Still(again) != nil {
		t.Errorf("a client that came back is not known: %v", err)
	}
	if b.Client.MayLock("b:1") == nil || r.Still(b) == nil {
		t.Error("what was begun by a client before it was gone goes on")
	}
	if len(changes) != 0 {
		t.Errorf("%d changes too many", len(changes))
	}
}

// TestFileIsReplacedAsKubernetesDoes has a path of links: the file, to a directory, to another one.
func TestFileIsReplacedAsKubernetesDoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for version, text := range map[string]string{
		"v1": twoTeams, "v2": strings.ReplaceAll(twoTeams, `"a:*"`, `"z:*"`),
	} {
		must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "clients.yaml"), text)
	}
	must(t, os.Symlink("v1", filepath.Join(dir, "data")))
	must(t, os.Symlink("data/clients.yaml", filepath.Join(dir, "clients.yaml")))
	r := &rig{path: filepath.Join(dir, "clients.yaml")}
	r.open(t, Config{File: r.path})
	a, err := r.Identify(t.Context(), Credentials{Certificate: cert("a", "", "")})
	must(t, err)

	must(t, os.Symlink("v2", filepath.Join(dir, "data.new")))
	must(t, os.Rename(filepath.Join(dir, "data.new"), filepath.Join(dir, "data")))
	until(t, "the rights are those of the second file", func() bool { return a.Client.MayLock("z:1") == nil })

	must(t, os.Remove(filepath.Join(dir, "data")))
	until(t, "it is said that the file is gone", func() bool { return valueOf(r.m.valid) == 0 })
	if a.Client.MayLock("z:1") != nil {
		t.Error("rights went with the file")
	}
}

// TestAFileThatIsBeingWrittenIsNotUsed looks at one that is read between two writes.
func TestAFileThatIsBeingWrittenIsNotUsed(t *testing.T) {
	r := newRig(t, twoTeams)
	r.Close()
	r.ctx = t.Context() // the test looks
	half := twoTeams[:strings.Index(twoTeams, "- {name: b")]
	write(t, r.path, half)
	if again := r.look(); again != settle || valueOf(r.m.clients) != 2 {
		t.Errorf("half a file was used at once, next look in %v", again)
	}
	write(t, r.path, twoTeams)
	if again := r.look(); again != poll || valueOf(r.m.clients) != 2 {
		t.Errorf("the whole file is as before, next look in %v", again)
	}
	write(t, r.path, half)
	r.look()
	if r.look(); valueOf(r.m.clients) != 1 {
		t.Error("what stays as it is was not used")
	}
}

func TestWhoExpiresIsNotStill(t *testing.T) {
	r := newRig(t, twoTeams)
	a, err := r.Identify(t.Context(), Credentials{Certificate: cert("a", "", "")})
	must(t, err)
	a.Until = a.Until.Add(-24 * 60 * 60 * 1e9)
	if got := whoIs(t, Identity{}, r.Still(a)); got != ReasonCertificateEnded {
		t.Errorf("got %q", got)
	}
	a.facts.shown = shownJWT
	if got := whoIs(t, Identity{}, r.Still(a)); got != ReasonTokenExpired {
		t.Errorf("got %q", got)
	}
}

func TestDeniedErrorsNameTheRightAndTheClient(t *testing.T) {
	r := newRig(t, `clients: [{name: a, cert: a, lock: ["a:*"], look: [b], deny: ["a:x"], admin: [force]}]`)
	a, err := r.Identify(t.Context(), Credentials{Certificate: cert("a", "", "")})
	must(t, err)
	c := a.Client
	for want, err := range map[string]error{
		`the client "a" of the clients file may not lock "b"`:                              c.MayLock("b"),
		`the client "a" of the clients file may not look at "c"`:                           c.MayLook("c"),
		`the client "a" of the clients file may not look at "a:x": it is in its deny list`: c.MayLook("a:x"),
		`the client "a" of the clients file has no admin right "drain"`:                    c.May(ActDrain),
		`the client "a" of the clients file may not lock "d"`:                              c.MayTo(ActForce, "d"),
		`the client "a" of the clients file has no admin right "limit"`:                    c.MayTo(ActLimit, "a:1"),
	} {
		if e, is := errors.AsType[*DeniedError](err); !is || e.Error() != want || e.Client != "a" {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if c.MayLook("b") != nil || c.MayLook("a:1") != nil || c.MayTo(ActForce, "a:1") != nil {
		t.Error("it may not what it may")
	}
}

// TestOpenSaysAllThatIsWrong also says that nothing is left of a Guard that was not opened.
func TestOpenSaysAllThatIsWrong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients.yaml")
	write(t, path, "clients: [{name: a}, {name: b}]")
	_, err := Open(Config{File: path, Audit: t.TempDir()}, nil, nil)
	if err == nil || strings.Count(err.Error(), "nobody can be") != 2 || !strings.Contains(err.Error(), "open the audit") {
		t.Errorf("got %v", err)
	}
	if got := Check(path); got == nil || Check(path+"x") == nil {
		t.Errorf("got %v", got)
	}
}

// TestManyAtOnce is for the race detector.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	key := newSigner(t, "1")
	server := newKeyServer(t, textOf(t, key.public()))
	jwtFile := of("me", server.URL, "app")
	r := newRig(t, jwtFile)
	var wg sync.WaitGroup
	token := "Bearer " + key.sign(t, claimsNow("me", "app"))
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				i, err := r.Identify(t.Context(), Credentials{Authorization: token})
				if err != nil {
					t.Error(err)
					return
				}
				_ = i.Client.MayLock("x")
				_, _, _ = r.Still(i), r.Allowances(), r.oldestKeys()
				r.Audit(Event{What: EventDenied, Identity: i})
			}
		})
	}
	wg.Go(func() {
		for range 3 {
			before := valueOf(r.m.applied)
			jwtFile += "# again\n"
			write(t, r.path, jwtFile)
			until(t, "it is used", func() bool { return valueOf(r.m.applied) > before })
		}
	})
	wg.Wait()
}
