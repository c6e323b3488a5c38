package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// asker is somebody who looks.
type asker struct {
	ctx     context.Context // for calls of Services as him; of his request
	client  string
	byLogin bool // he gave a token in the form
}

// mayAct says whether he may do more than look, if his rights let him.
func (a asker) mayAct() bool { return a.client != "" }

const cookieName = "lockd_console"

// as is a context for calls as the one who made a request. A header counts before a login, and a login before a
// certificate.
func (c *Console) as(r *http.Request) (ctx context.Context, byLogin bool) {
	authorization := r.Header.Get("Authorization")
	if authorization == "" {
		if cookie, err := r.Cookie(cookieName); err == nil {
			if token, there := c.logins.find(cookie.Value); there {
				authorization, byLogin = "Bearer "+token, true
			}
		}
	}
	return c.services.As(r.Context(), r.RemoteAddr, r.TLS, authorization), byLogin
}

// handler serves who is known; of a view, unless it is nil.
type handler func(w http.ResponseWriter, r *http.Request, a asker, v *view)

// known has a request served if it is known who makes it. Who is not known is asked for a token.
func (c *Console) known(v *view, next handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, byLogin := c.as(r)
		client, err := c.services.Who(ctx)
		if err == nil {
			next(w, r, asker{ctx, client, byLogin}, v)
			return
		}
		f := failure(err)
		switch {
		case f.GetCode() != codeUnauthenticated || r.Method != http.MethodGet:
			c.problem(w, r, httpCode(f.GetCode()), explained(f))
		case strings.HasPrefix(r.URL.Path, "/live/"):
			http.Error(w, explained(f), http.StatusUnauthorized)
		default:
			http.Redirect(w, r, c.cfg.Path+"/login", http.StatusSeeOther)
		}
	}
}

func (c *Console) loginForm(w http.ResponseWriter, r *http.Request) {
	f := c.frame(asker{}, nil, r)
	f.Title = "Log in"
	ctx, _ := c.as(r)
	if client, err := c.services.Who(ctx); err == nil {
		f.Client = client
	}
	c.write(w, http.StatusOK, "login", f)
}

// login takes a token that is good, and remembers it.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimSpace(r.PostFormValue("token"))
	refuse := func(code int, text string) {
		f := c.frame(asker{}, nil, r)
		f.Title, f.Said = "Log in", text
		c.write(w, code, "login", f)
	}
	if token == "" {
		refuse(http.StatusBadRequest, "A token is needed.")
		return
	}
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	leave, ok := c.logins.try(address)
	if !ok {
		refuse(http.StatusTooManyRequests, "Too many tokens are tried from here. Try again in a moment.")
		return
	}
	_, err := c.services.Who(c.services.As(r.Context(), r.RemoteAddr, r.TLS, "Bearer "+token))
	leave(err == nil)
	if err != nil {
		refuse(httpCode(failure(err).GetCode()), explained(failure(err)))
		return
	}
	id, ok := c.logins.add(token)
	if !ok {
		refuse(http.StatusServiceUnavailable, "Too many are logged in at this replica.")
		return
	}
	http.SetCookie(w, c.cookie(r, id, int(loginTime/time.Second)))
	http.Redirect(w, r, c.cfg.Path+"/", http.StatusSeeOther)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		c.logins.remove(cookie.Value)
	}
	http.SetCookie(w, c.cookie(r, "", -1))
	http.Redirect(w, r, c.cfg.Path+"/login", http.StatusSeeOther)
}

// cookie has the id of a login. It says nothing to anybody but this process.
func (c *Console) cookie(r *http.Request, id string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: id, Path: c.cfg.Path + "/", MaxAge: seconds, HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
}

// What logins may cost.
const (
	loginTime   = 12 * time.Hour // a token that is good for less ends it sooner
	mostLogins  = 2000
	mostTries   = 8           // of wrong tokens at a time
	triesOfOne  = 2           // of these of one address
	failedAfter = time.Second // that a wrong token takes
)

// logins are the tokens of those who gave one, by the hash of the id in their cookie.
type logins struct {
	mu    sync.Mutex // guards the fields below
	all   map[[sha256.Size]byte]login
	tries map[string]int // that are under way, by address
	under int            // all of these
}

type login struct {
	token string
	until time.Time
}

func newLogins() *logins { return &logins{all: map[[sha256.Size]byte]login{}, tries: map[string]int{}} }

func (l *logins) find(id string) (token string, there bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in, there := l.all[sha256.Sum256([]byte(id))]
	return in.token, there && time.Now().Before(in.until)
}

func (l *logins) add(token string) (id string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) >= mostLogins {
		for k, in := range l.all {
			if !time.Now().Before(in.until) {
				delete(l.all, k)
			}
		}
	}
	if len(l.all) >= mostLogins {
		return "", false
	}
	id = rand.Text()
	l.all[sha256.Sum256([]byte(id))] = login{token, time.Now().Add(loginTime)}
	return id, true
}

func (l *logins) remove(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, sha256.Sum256([]byte(id)))
}

// try lets few tokens be tried at a time. One that is wrong has its place for a second, so nobody tries many.
func (l *logins) try(address string) (leave func(good bool), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.under >= mostTries || l.tries[address] >= triesOfOne {
		return nil, false
	}
	l.under++
	l.tries[address]++
	return func(good bool) {
		if !good {
			time.Sleep(failedAfter)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.under--
		if l.tries[address]--; l.tries[address] == 0 {
			delete(l.tries, address)
		}
	}, true
}

// explained is a failure for people.
func explained(f *lockdv1.Failure) string {
	text := readable(f.GetMessage())
	if f.GetReason() != "" {
		text += " (" + f.GetReason() + ")"
	}
	return text
}
