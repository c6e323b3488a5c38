package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/console"
)

// changed answers some calls in another way.
type changed struct {
	console.Calls
	answer func(in any) proto.Message // nil: as the replica does
}

func (c *changed) Invoke(ctx context.Context, method string, in, out any, opts ...grpc.CallOption) error {
	if answer := c.answer(in); answer != nil {
		proto.Merge(out.(proto.Message), answer)
		return nil
	}
	return c.Calls.Invoke(ctx, method, in, out, opts...)
}

// What is said of the end of a session is what the replicas said, and not more.
func TestItIsToldWhatIsNotKnownOfASession(t *testing.T) {
	var end *lockdv1.EndSessionResponse
	w := startChanged(t, guardOf(t), console.Config{}, func(in console.Calls) console.Calls {
		return &changed{in, func(in any) proto.Message {
			if _, ends := in.(*lockdv1.EndSessionRequest); ends {
				return end
			}
			return nil
		}}
	})
	ops := w.login("ops-token")
	for text, answer := range map[string]*lockdv1.EndSessionResponse{
		"what it held is released":    {Ended: true, Released: true, ReplicasAnswered: 1, ReplicasAsked: 2},
		"is not known to be released": {Ended: true, ReplicasAnswered: 2, ReplicasAsked: 2},
		"did not answer. Try again":   {ReplicasAnswered: 1, ReplicasAsked: 2},
		"There was no such session":   {ReplicasAnswered: 2, ReplicasAsked: 2},
	} {
		end = answer
		code, body := ops.post("/session/end", url.Values{"id": {"x"}, "why": {"it is stuck"}})
		wants(t, text, code, http.StatusOK, body, text)
	}
}

// A kind that nobody knows is a mistake, and not all kinds.
func TestOnlyKnownKindsAreReleased(t *testing.T) {
	w := start(t)
	s := w.session("holder")
	s.take("door")
	ops := w.login("ops-token")
	for _, kind := range [][]string{{"reed"}, {"READ"}, {"exclusive"}, {"unspecified"}, {" "}, {"3"}, {"", "read"}} {
		code, body := ops.post("/lock/force", url.Values{"name": {"door"}, "why": {"x"}, "kind": kind})
		wants(t, fmt.Sprint(kind), code, http.StatusBadRequest, body, "!was released")
	}
	code, body := ops.get("/lock?name=door")
	wants(t, "the lock", code, http.StatusOK, body, "for door")
}

// Who may look at some locks only is told that the replica is ready, and no number that tells of the others.
func TestNumbersOfAReplicaAreForThoseWhoMayKnowThem(t *testing.T) {
	w := start(t)
	s := w.session("holder")
	s.take("secret")
	const numbers, conditions = "<dt>Sessions</dt>", "Conditions of alerts"
	code, body := w.login("guest-token").get("/health")
	wants(t, "a guest", code, http.StatusOK, body, "ready", "1 of 1 answered", "memory", "v0", "!"+numbers, "!"+conditions,
		"!LockdWaiterStuck", "has the right")
	for _, token := range []string{"ops-token", "worker-token"} {
		code, body = w.login(token).get("/health")
		wants(t, token, code, http.StatusOK, body, "ready", numbers, conditions)
	}
}

// Who was logged in is told that this is over, and what he sends does nothing.
func TestWhoseLoginIsOverIsToldSo(t *testing.T) {
	w := start(t)
	w.session("holder").take("door")
	b := w.login("ops-token")
	at, err := url.Parse(w.site.URL)
	must(t, err)
	b.Jar.SetCookies(at, []*http.Cookie{{Name: "lockd_console", Value: "of-another-key"}})
	code, body := b.get("/lock?name=door")
	wants(t, "a page", code, http.StatusOK, body, "Your login is over", "!holder")
	form := url.Values{"name": {"door"}, "why": {"late"}, "form": {"x"}}
	code, body = b.post("/lock/force", form)
	wants(t, "an act", code, http.StatusUnauthorized, body, "Nothing was done", "Token of a client")
	code, body = w.browser().get("/")
	wants(t, "who was never logged in", code, http.StatusOK, body, "Log in", "!is over")
}

// A token that expires at this moment makes no cookie that is good for longer.
func TestATokenThatExpiresIsNotTaken(t *testing.T) {
	w := startChanged(t, guardOf(t), console.Config{}, func(in console.Calls) console.Calls {
		return &changed{in, func(in any) proto.Message {
			if _, asks := in.(*lockdv1.WhoAmIRequest); asks {
				return &lockdv1.WhoAmIResponse{Client: "ops", ExpiresIn: durationpb.New(time.Millisecond)}
			}
			return nil
		}}
	})
	code, body, h := w.browser().do(w.browser().request(http.MethodPost, "/login", url.Values{"token": {"ops-token"}}))
	wants(t, "the login", code, http.StatusUnauthorized, body, "expires just now")
	if h.Get("Set-Cookie") != "" {
		t.Errorf("got the cookie %q", h.Get("Set-Cookie"))
	}
}
