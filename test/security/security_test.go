package security

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/security"
	"github.com/lockd-io/lockd/test/harness"
)

// whoAmI is what lockd says of a caller: its name, or why it is not let in.
func whoAmI(t testing.TB, cc *grpc.ClientConn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	me, err := lockdv1.NewInspectServiceClient(cc).WhoAmI(ctx, &lockdv1.WhoAmIRequest{})
	if err == nil {
		return me.GetClient()
	}
	return reason(err)
}

// reason is that of lockd, or the code of an error that is not lockd's.
func reason(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return status.Code(err).String()
}

func TestWhoIsLetIn(t *testing.T) {
	w := newWorld(t)
	cert := func(p certstest.Pair) *client.TLS { as := w.as(p); return &as }
	const billing = "spiffe://prod/ns/billing/a"
	good := w.issuer.claims(time.Hour)
	with := func(change func(*jwt.Claims)) jwt.Claims { c := good; change(&c); return c }
	token := func(c jwt.Claims) string { return bearer(w.issuer.token("first", c)) }
	unsigned := func() string {
		part := func(v any) string {
			text, err := json.Marshal(v)
			harness.Must(t, err)
			return base64.RawURLEncoding.EncodeToString(text)
		}
		return part(map[string]string{"alg": "none", "typ": "JWT"}) + "." + part(good) + "."
	}
	public := w.issuer.public("first")
	inPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	certified := func(names ...string) *client.TLS { return cert(w.ca.Issue(t, time.Hour, names...)) }
	audience := func(c *jwt.Claims) { c.Audience = jwt.Audience{"vault"} }
	subject := func(c *jwt.Claims) { c.Subject = "repo:evil/x" }
	other := func(c *jwt.Claims) { c.Issuer = "https://evil.example" }
	for name, row := range map[string]struct {
		as            *client.TLS
		authorization string
		want          string
	}{
		"a certificate":             {certified(billing), "", "billing"},
		"no certificate":            {nil, "", security.ReasonNoCredentials},
		"an expired one":            {cert(w.ca.Issue(t, -time.Minute, billing)), "", "Unavailable"},
		"one that is not valid yet": {cert(w.ca.IssueFrom(t, time.Hour, 2*time.Hour, billing)), "", "Unavailable"},
		"one of a stranger":         {cert(w.stranger.Issue(t, time.Hour, billing)), "", "Unavailable"},
		"one with another name":     {certified("spiffe://prod/ns/billing"), "", security.ReasonClientUnknown},
		"a DNS name like it":        {certified("billing"), "", security.ReasonClientUnknown},
		"a static token":            {nil, bearer(staticToken), "ops"},
		"a wrong token":             {nil, bearer("x" + staticToken[1:]), security.ReasonTokenInvalid},
		"that and a certificate":    {certified(billing), bearer("wrong"), security.ReasonTokenInvalid},
		"another scheme":            {nil, "Basic " + staticToken, security.ReasonTokenInvalid},
		"a JWT":                     {nil, token(good), "ci"},
		"an expired JWT":            {nil, token(w.issuer.claims(-2 * time.Minute)), security.ReasonTokenExpired},
		"of another audience":       {nil, token(with(audience)), security.ReasonTokenInvalid},
		"of another subject":        {nil, token(with(subject)), security.ReasonClientUnknown},
		"of another issuer":         {nil, token(with(other)), security.ReasonTokenInvalid},
		"alg none":                  {nil, bearer(unsigned()), security.ReasonTokenInvalid},
		"HS256 with the key":        {nil, bearer(signed(t, jose.HS256, public, "first", good)), security.ReasonTokenInvalid},
		"HS256 with its PEM":        {nil, bearer(signed(t, jose.HS256, inPEM, "first", good)), security.ReasonTokenInvalid},
		"a key that nobody told":    {nil, bearer(w.issuer.token("unknown", good)), security.ReasonTokenInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			if got := whoAmI(t, w.conn(row.as, row.authorization)); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// Keys of the issuer change, and may not be there for a while: who is known stays so.
func TestKeysOfAnIssuerChange(t *testing.T) {
	w := newWorld(t, func(w *world) { w.issuer.leave(true) })
	me := func(kid string) string {
		return whoAmI(t, w.conn(nil, bearer(w.issuer.token(kid, w.issuer.claims(time.Hour)))))
	}
	if got := me("first"); got != security.ReasonKeysUnavailable {
		t.Errorf("before any key could be had: got %s", got)
	}
	w.issuer.leave(false)
	harness.Until(t, "the keys are there", func() bool { return me("first") == "ci" })
	w.issuer.leave(true)
	if got := me("first"); got != "ci" {
		t.Errorf("while the issuer is away: got %s", got)
	}
	w.issuer.leave(false)
	w.issuer.rotate("second")
	harness.Until(t, "the new key is known", func() bool { return me("second") == "ci" })
}

// Each identity may do what its entry says, on the stream and by unary calls, and sees no more than it may look at.
func TestWhatAnIdentityMayDo(t *testing.T) {
	w := newWorld(t)
	ops, ci := w.conn(nil, bearer(staticToken)), w.conn(nil, bearer(w.issuer.token("first", w.issuer.claims(time.Hour))))
	acquire := func(cc *grpc.ClientConn, name string) error {
		_, err := lockdv1.NewLockServiceClient(cc).Acquire(t.Context(), &lockdv1.AcquireRequest{
			Name: name, Lease: durationpb.New(time.Minute),
		})
		return err
	}
	forbidden := func(what string, err error) {
		t.Helper()
		denied := status.Code(err) == codes.PermissionDenied && reason(err) == "FORBIDDEN"
		if !denied || !strings.Contains(err.Error(), `"ci"`) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	harness.Must(t, acquire(ci, "ci:build"))
	harness.Must(t, acquire(ops, "invoice:1"))
	forbidden("deny", acquire(ci, "ci:prod-1"))
	forbidden("another's name", acquire(ci, "invoice:2"))
	inspect, admin := lockdv1.NewInspectServiceClient(ci), lockdv1.NewAdminServiceClient(ci)
	_, err := inspect.Inspect(t.Context(), &lockdv1.InspectRequest{Name: "invoice:1"})
	forbidden("inspect", err)
	_, err = inspect.ListEvents(t.Context(), &lockdv1.ListEventsRequest{Name: "invoice:1"})
	forbidden("history", err)
	_, err = lockdv1.NewLockServiceClient(ci).SetLimit(t.Context(), &lockdv1.SetLimitRequest{Name: "invoice:s", Limit: 1})
	forbidden("limit", err)
	_, err = admin.ForceRelease(t.Context(), &lockdv1.ForceReleaseRequest{Name: "ci:build"})
	forbidden("force", err)
	_, err = admin.Drain(t.Context(), &lockdv1.DrainRequest{})
	forbidden("drain", err)
	for _, list := range []func() (string, error){
		func() (string, error) {
			r, err := inspect.ListHolds(t.Context(), &lockdv1.ListHoldsRequest{})
			return r.String(), err
		},
		func() (string, error) {
			r, err := inspect.ListSessions(t.Context(), &lockdv1.ListSessionsRequest{})
			return r.String(), err
		},
		func() (string, error) {
			r, err := lockdv1.NewLockServiceClient(ci).List(t.Context(), &lockdv1.ListRequest{})
			return r.String(), err
		},
		func() (string, error) {
			r, err := inspect.ListBusiest(t.Context(), &lockdv1.ListBusiestRequest{})
			return r.String(), err
		},
	} {
		text, err := list()
		harness.Must(t, err)
		if strings.Contains(text, "invoice") || strings.Contains(text, "ops") {
			t.Errorf("it is shown %s", text)
		}
	}
	_, err = lockdv1.NewAdminServiceClient(ops).ForceRelease(t.Context(), &lockdv1.ForceReleaseRequest{
		Name: "invoice:1", Why: "a test", By: "forged\n{\"event\":\"\u202eforged\"}",
	})
	harness.Must(t, err)
	var events []string
	harness.Until(t, "the audit has it", func() bool {
		events = w.audited(t)
		return slices.Contains(events, "forced ops OK invoice:1")
	})
	for _, want := range []string{"denied ci FORBIDDEN ci:prod-1", "denied ci FORBIDDEN invoice:2", "file_applied   "} {
		if !slices.Contains(events, want) {
			t.Errorf("the audit lacks %q: it has %q", want, events)
		}
	}
}

// audited are the lines of the audit: what happened, whose doing, how it ended, and the name.
func (w *world) audited(t testing.TB) (events []string) {
	t.Helper()
	text, err := os.ReadFile(w.audit)
	harness.Must(t, err)
	for line := range bytes.Lines(text) {
		var e security.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		events = append(events, strings.Join([]string{e.What, e.Client, e.Result, e.Name}, " "))
	}
	return events
}

// A file with a mistake changes nothing, and is told of. A right that is withdrawn ends waits at once, and leaves
// holds.
func TestTheFileChangesWhileClientsWork(t *testing.T) {
	w := newWorld(t)
	text, err := os.ReadFile(w.file)
	harness.Must(t, err)
	ops := w.conn(nil, bearer(staticToken))
	billing := w.Dial(t, client.WithTLS(w.billing()))
	held, err := billing.Lock(t.Context(), "invoice:held")
	harness.Must(t, err)
	_, err = lockdv1.NewLockServiceClient(ops).Acquire(t.Context(), &lockdv1.AcquireRequest{
		Name: "invoice:other", Lease: durationpb.New(time.Hour),
	})
	harness.Must(t, err)
	waits := make(chan error, 1)
	go func() { _, err := billing.Lock(t.Context(), "invoice:other"); waits <- err }()
	harness.Until(t, "it waits", func() bool { return w.Metric("lockd_waiters") == 1 })

	w.write("clients: [{name: billing, lock: [']]")
	harness.Until(t, "the mistake is told", func() bool { return w.Metric("lockd_clients_file_valid") == 0 })
	select {
	case err := <-waits:
		t.Fatalf("a broken file ended a wait: %v", err)
	default:
	}
	w.applied(strings.Replace(string(text), `lock: ["invoice:*", "rates"]`, `lock: ["rates"]`, 1))
	if err := harness.Soon(t, "the wait ends", waits); err == nil || !strings.Contains(err.Error(), "invoice:other") {
		t.Errorf("the wait ended with %v", err)
	}
	select {
	case <-held.Lost():
		t.Errorf("the hold was lost: %v", held.Err())
	default:
	}
	if _, err := billing.TryLock(t.Context(), "invoice:new"); err == nil {
		t.Error("it was given what it may have no more")
	}
	harness.Must(t, held.Unlock(t.Context()))
	rates, err := billing.Lock(t.Context(), "rates")
	harness.Must(t, err)
	w.applied("on_revoke: end\n" + strings.Replace(string(text), `lock: ["invoice:*", "rates"]`, `lock: []`, 1))
	harness.Soon(t, "the hold is lost", rates.Lost())
	_, err = lockdv1.NewLockServiceClient(ops).Acquire(t.Context(), &lockdv1.AcquireRequest{
		Name: "rates", Lease: durationpb.New(time.Minute),
	})
	harness.Must(t, err)
}

// Certificates of both sides, their authority, the issuer's keys and the clients file change while 64 clients work. No
// call fails and no lock is lost.
func TestEverythingIsRotatedUnderLoad(t *testing.T) {
	w := newWorld(t)
	const clients = 64
	tokenFile := certstest.Write(t, w.file+".token", []byte(w.issuer.token("first", w.issuer.claims(time.Hour))))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	failed, done := make(chan error, clients), make(chan int, clients)
	mine := w.billing()
	for i := range clients {
		opts, begin := []client.Option{client.WithTLS(mine)}, "invoice:"
		if i%2 == 0 {
			opts, begin = []client.Option{client.WithTLS(client.TLS{CACert: w.serverCA}), client.WithTokenFile(tokenFile)}, "ci:"
		}
		c := w.Dial(t, opts...)
		keeps, err := c.Lock(t.Context(), fmt.Sprint(begin, "keeps ", i))
		harness.Must(t, err)
		go func() {
			n := 0
			for ; ctx.Err() == nil; n++ {
				l, err := c.Lock(t.Context(), fmt.Sprint(begin, i%8))
				if err == nil {
					err = l.Unlock(t.Context())
				}
				if err != nil {
					failed <- err
					break
				}
			}
			if err := keeps.Unlock(t.Context()); err != nil {
				failed <- err
			}
			done <- n
		}()
	}
	text, err := os.ReadFile(w.file)
	harness.Must(t, err)
	next := certstest.NewAuthority(t, "other clients")
	both := append(slices.Clone(w.ca.PEM()), next.PEM()...)
	certstest.Write(t, w.clientCA, both)
	server := certstest.NewAuthority(t, "another lockd")
	trusted, err := os.ReadFile(w.serverCA)
	harness.Must(t, err)
	certstest.Write(t, w.serverCA, append(trusted, server.PEM()...))
	pair, own := server.Issue(t, time.Hour, "127.0.0.1"), next.Issue(t, time.Hour, "spiffe://prod/ns/billing/b")
	certstest.Write(t, w.cert, pair.Cert)
	certstest.Write(t, w.key, pair.Key)
	certstest.Write(t, mine.Key, own.Key)
	certstest.Write(t, mine.Cert, own.Cert)
	w.issuer.rotate("second")
	certstest.Write(t, tokenFile, []byte(w.issuer.token("second", w.issuer.claims(time.Hour))))
	w.applied(string(text) + "- {name: late, cert: late.example, lock: [late]}\n")
	certstest.Write(t, w.clientCA, next.PEM())
	fresh := func(name string) bool {
		return whoAmI(t, w.conn(nil, bearer(w.issuer.token("second", w.issuer.claims(time.Hour))))) == name
	}
	harness.Until(t, "the new keys count", func() bool { return fresh("ci") })
	harness.Until(t, "the new authority counts", func() bool { return whoAmI(t, w.conn(&mine, "")) == "billing" })
	admin := lockdv1.NewAdminServiceClient(w.conn(nil, bearer(staticToken)))
	for range 2 { // all streams are opened anew, with what is there now
		_, err := admin.Drain(t.Context(), &lockdv1.DrainRequest{Within: durationpb.New(time.Second)})
		harness.Must(t, err)
		_, err = admin.Undrain(t.Context(), &lockdv1.UndrainRequest{})
		harness.Must(t, err)
	}
	time.Sleep(time.Second)
	stop()
	for range clients {
		if n := harness.Soon(t, "a client stops", done); n == 0 {
			t.Error("a client did nothing")
		}
	}
	select {
	case err := <-failed:
		t.Error(err)
	default:
	}
}

// The token of a session that somebody else has got is of no use to him.
func TestAStolenSessionIsOfNoUse(t *testing.T) {
	w := newWorld(t)
	open := func(cc *grpc.ClientConn, m *lockdv1.Open) (*lockdv1.Opened, error) {
		s, err := lockdv1.NewSessionServiceClient(cc).Session(t.Context())
		harness.Must(t, err)
		harness.Must(t, s.Send(&lockdv1.SessionRequest{RequestId: 1, Message: &lockdv1.SessionRequest_Open{Open: m}}))
		r, err := s.Recv()
		return r.GetOpened(), err
	}
	mine := w.billing()
	opened, err := open(w.conn(&mine, ""), &lockdv1.Open{Features: []lockdv1.Feature{lockdv1.Feature_FEATURE_RESUME}})
	harness.Must(t, err)
	resume := &lockdv1.Open{Resume: &lockdv1.Resume{
		SessionId: opened.GetSessionId(), ResumeToken: opened.GetResumeToken(), Epoch: 2,
	}}
	if _, err := open(w.conn(nil, bearer(staticToken)), resume); reason(err) != "SESSION_EXPIRED" {
		t.Errorf("resumed by somebody else: got %v", err)
	}
	resume.Resume.Epoch = 3
	if _, err := open(w.conn(&mine, ""), resume); err != nil {
		t.Errorf("resumed by whose it is: %v", err)
	}
}
