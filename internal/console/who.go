package console

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// asker is somebody who looks, and the calls that are made as him.
type asker struct {
	client  string // by the clients file; empty without one
	byLogin bool   // he gave a token in the form
	inspect lockdv1.InspectServiceClient
	admin   lockdv1.AdminServiceClient
	locks   lockdv1.LockServiceClient
}

// mayAct says whether he may do more than look, if his rights let him.
func (a *asker) mayAct() bool { return a.client != "" }

// shown makes calls as somebody at an address, with the credentials that he showed.
type shown struct {
	Calls
	from          string
	secure        *tls.ConnectionState
	authorization []string
}

// Invoke implements grpc.ClientConnInterface. Each call is a visit: else a look of several calls would keep the room of
// all of them.
func (s *shown) Invoke(ctx context.Context, method string, in, out any, opts ...grpc.CallOption) error {
	ctx, leave, err := s.Visit(ctx, s.from, s.secure, s.authorization, 0)
	defer leave()
	if err != nil {
		return err
	}
	return s.Calls.Invoke(ctx, method, in, out, opts...)
}

func (s *shown) asker() *asker {
	return &asker{
		inspect: lockdv1.NewInspectServiceClient(s), admin: lockdv1.NewAdminServiceClient(s),
		locks: lockdv1.NewLockServiceClient(s),
	}
}

// key is the same for those who showed the same credentials.
func (s *shown) key() string {
	sum := sha256.New()
	for _, text := range s.authorization {
		_, _ = fmt.Fprintf(sum, "%q", text)
	}
	if s.secure != nil && len(s.secure.PeerCertificates) > 0 {
		_, _ = sum.Write(s.secure.PeerCertificates[0].Raw)
	}
	return string(sum.Sum(nil))
}

// identify says who made a request. A header counts before a login, and a login before a certificate.
func (c *Console) identify(r *http.Request) (*asker, error) {
	s := &shown{Calls: c.calls, from: r.RemoteAddr, secure: r.TLS, authorization: r.Header["Authorization"]}
	byLogin := false
	if cookie, err := r.Cookie(cookieName); err == nil && len(s.authorization) == 0 {
		if token, good := c.seal.open(cookie.Value, time.Now()); good {
			s.authorization, byLogin = []string{"Bearer " + token}, true
		}
	}
	a := s.asker()
	a.byLogin = byLogin
	look := func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), lookTime) // others wait for it
		defer cancel()
		who, err := a.inspect.WhoAmI(ctx, &lockdv1.WhoAmIRequest{})
		return who.GetClient(), err
	}
	who, err := c.whos.get(r.Context(), s.key()+"\x00", fresh, look)
	if errors.Is(err, errBusy) { // strangers fill it as they like, and each pays for his visit
		who, err = look()
	}
	a.client, _ = who.(string)
	return a, err
}

// handler serves somebody who is known.
type handler func(w http.ResponseWriter, r *http.Request, a *asker)

// known serves a request if it is known who makes it, and else asks for a token.
func (c *Console) known(next handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := c.identify(r)
		switch {
		case err == nil:
			next(w, r, a)
		case strings.HasPrefix(r.URL.Path, "/live/"):
			http.Error(w, explained(err), httpCode(err))
		case status.Code(err) != codes.Unauthenticated:
			c.problem(w, r, httpCode(err), explained(err))
		case r.Method == http.MethodPost:
			c.askToken(w, c.frame(nil, nil, r), httpCode(err), "Nothing was done: "+explained(err))
		default:
			why := ""
			if _, err := r.Cookie(cookieName); err == nil {
				why = "over"
			}
			http.Redirect(w, r, link(c.cfg.Path, "/login", "said", why), http.StatusSeeOther)
		}
	}
}

// act serves what changes something, for somebody who is known and whose form has the secret of his pages.
func (c *Console) act(next handler) http.HandlerFunc {
	return c.known(func(w http.ResponseWriter, r *http.Request, a *asker) {
		switch {
		case !a.mayAct():
			c.problem(w, r, http.StatusForbidden, onlyShows)
		case !hmac.Equal([]byte(r.PostFormValue("form")), []byte(c.seal.form(a.client))):
			c.problem(w, r, http.StatusForbidden, "The form is of another login or replica. Load the page again.")
		default:
			next(w, r, a)
		}
	})
}

func (c *Console) loginForm(w http.ResponseWriter, r *http.Request) {
	f := c.frame(nil, nil, r)
	if a, err := c.identify(r); err == nil {
		f.Client = a.client
	}
	c.askToken(w, f, http.StatusOK, said[f.Query.Get("said")])
}

// askToken asks for a token, and says why.
func (c *Console) askToken(w http.ResponseWriter, f frame, code int, why string) {
	f.Title, f.Said = "Log in", why
	c.write(w, code, "login", f)
}

// login takes a token that is good, and has the browser keep it.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	token, f := strings.TrimSpace(r.PostFormValue("token")), c.frame(nil, nil, r)
	if token == "" || len(token) > tokenBytes {
		c.askToken(w, f, http.StatusBadRequest, fmt.Sprintf("A token is needed, of %d bytes at most.", tokenBytes))
		return
	}
	s := &shown{Calls: c.calls, from: r.RemoteAddr, secure: r.TLS, authorization: []string{"Bearer " + token}}
	who, err := s.asker().inspect.WhoAmI(r.Context(), &lockdv1.WhoAmIRequest{})
	if err != nil {
		c.askToken(w, f, httpCode(err), explained(err))
		return
	}
	lasts := loginTime
	if who.GetExpiresIn() != nil {
		lasts = min(lasts, who.GetExpiresIn().AsDuration())
	}
	if lasts < time.Second {
		c.askToken(w, f, http.StatusUnauthorized, "The token expires just now.")
		return
	}
	// A browser keeps the cookie longer than it is good: so it is told when its login is over.
	http.SetCookie(w, c.cookie(r, c.seal.close(token, time.Now().Add(lasts)), loginTime))
	http.Redirect(w, r, c.cfg.Path+"/", http.StatusSeeOther)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request, _ *asker) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		if _, good := c.seal.open(cookie.Value, time.Now()); good {
			c.seal.end(cookie.Value, time.Now())
		}
	}
	http.SetCookie(w, c.cookie(r, "", -time.Second))
	http.Redirect(w, r, c.cfg.Path+"/login", http.StatusSeeOther)
}

// What logins are.
const (
	cookieName = "lockd_console"
	loginTime  = 12 * time.Hour // a token that is good for less ends it sooner
	tokenBytes = 2800           // sealed, and with its name and the rest, it is a cookie of 4 KB, which browsers keep
	keyBytes   = 32             // at least
	mostEnded  = 1000
)

func (c *Console) cookie(r *http.Request, value string, lasts time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: value, Path: c.cfg.Path + "/", MaxAge: int(lasts / time.Second), HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
}
