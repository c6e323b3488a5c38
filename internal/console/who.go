package console

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
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

// shown are the calls of somebody at an address, with what he showed of who he is.
type shown struct {
	Calls
	from          string
	secure        *tls.ConnectionState
	authorization []string
}

// Invoke implements grpc.ClientConnInterface. Each call is a visit: else a look of several calls would keep the room of
// all of them.
func (s *shown) Invoke(ctx context.Context, method string, in, out any, opts ...grpc.CallOption) error {
	ctx, leave, err := s.Visit(ctx, s.from, s.secure, s.authorization)
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

// key is the same for those who showed the same.
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
	who, err := c.looks.get(r.Context(), "who\x00"+s.key(), fresh, func() (any, error) {
		who, err := a.inspect.WhoAmI(r.Context(), &lockdv1.WhoAmIRequest{})
		return who.GetClient(), err
	})
	a.client, _ = who.(string)
	return a, err
}

// handler serves somebody who is known.
type handler func(w http.ResponseWriter, r *http.Request, a *asker)

// known has a request served if it is known who makes it. Who is not known is asked for a token.
func (c *Console) known(next handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := c.identify(r)
		switch {
		case err == nil:
			next(w, r, a)
		case status.Code(err) != codes.Unauthenticated || r.Method != http.MethodGet:
			c.problem(w, r, httpCode(err), explained(err))
		case strings.HasPrefix(r.URL.Path, "/live/"):
			http.Error(w, explained(err), http.StatusUnauthorized)
		default:
			http.Redirect(w, r, c.cfg.Path+"/login", http.StatusSeeOther)
		}
	}
}

// act serves what changes something: for somebody who is known, and whose page had the token of forms.
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
	f.Title = "Log in"
	if a, err := c.identify(r); err == nil {
		f.Client = a.client
	}
	c.write(w, http.StatusOK, "login", f)
}

// login takes a token that is good, and has the browser keep it.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimSpace(r.PostFormValue("token"))
	refuse := func(code int, text string) {
		f := c.frame(nil, nil, r)
		f.Title, f.Said = "Log in", text
		c.write(w, code, "login", f)
	}
	if token == "" || len(token) > tokenBytes {
		refuse(http.StatusBadRequest, fmt.Sprintf("A token is needed, of %d bytes at most.", tokenBytes))
		return
	}
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	leave, ok := c.tries.enter(address)
	if !ok {
		refuse(http.StatusTooManyRequests, "Too many tokens are tried from here. Try again in a moment.")
		return
	}
	s := &shown{Calls: c.calls, from: r.RemoteAddr, secure: r.TLS, authorization: []string{"Bearer " + token}}
	who, err := s.asker().inspect.WhoAmI(r.Context(), &lockdv1.WhoAmIRequest{})
	leave(err == nil)
	if err != nil {
		refuse(httpCode(err), explained(err))
		return
	}
	lasts := loginTime
	if who.GetExpiresIn() != nil {
		lasts = min(lasts, who.GetExpiresIn().AsDuration())
	}
	http.SetCookie(w, c.cookie(r, c.seal.close(token, time.Now().Add(lasts)), int(lasts/time.Second)))
	http.Redirect(w, r, c.cfg.Path+"/", http.StatusSeeOther)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request, _ *asker) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		c.seal.end(cookie.Value, time.Now())
	}
	http.SetCookie(w, c.cookie(r, "", -1))
	http.Redirect(w, r, c.cfg.Path+"/login", http.StatusSeeOther)
}

// What logins are.
const (
	cookieName  = "lockd_console"
	loginTime   = 12 * time.Hour // a token that is good for less ends it sooner
	tokenBytes  = 2800           // sealed, and with its name and the rest, it is a cookie of 4 KB, which browsers keep
	keyBytes    = 32             // at least
	mostEnded   = 1000
	mostTries   = 8           // of wrong tokens at a time
	triesOfOne  = 2           // of these of one address
	failedAfter = time.Second // that a wrong token takes
)

func (c *Console) cookie(r *http.Request, value string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: value, Path: c.cfg.Path + "/", MaxAge: seconds, HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
}

// seal makes what browsers keep for us, and others can neither read nor make.
type seal struct {
	cookies cipher.AEAD
	forms   []byte

	mu    sync.Mutex           // guards the field below
	ended map[string]time.Time // cookies of those who logged out here, until they are good no more
}

// ReadKey reads the file of a key.
func ReadKey(file string) ([]byte, error) {
	key, err := os.ReadFile(file)
	if err == nil && len(key) < keyBytes {
		err = fmt.Errorf("%s has %d bytes, must have %d or more", file, len(key), keyBytes)
	}
	return key, err
}

// newSeal makes one with the key of a file, or else with one that only this process has.
func newSeal(file string) (*seal, error) {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // it never fails
	if file != "" {
		var err error
		if key, err = ReadKey(file); err != nil {
			return nil, err
		}
	}
	part := func(of string) []byte {
		sum := sha256.Sum256(append([]byte(of), key...))
		return sum[:]
	}
	block, err := aes.NewCipher(part("cookies of lockd's console: "))
	if err != nil {
		return nil, err
	}
	cookies, err := cipher.NewGCMWithRandomNonce(block)
	return &seal{cookies: cookies, forms: part("forms of lockd's console: "), ended: map[string]time.Time{}}, err
}

// close is a cookie with a token, which is good until a time.
func (s *seal) close(token string, until time.Time) string {
	plain := binary.BigEndian.AppendUint64(nil, uint64(until.Unix())) //nolint:gosec // it is after 1970
	return base64.RawURLEncoding.EncodeToString(s.cookies.Seal(nil, nil, append(plain, token...), nil))
}

// open is the token of a cookie.
func (s *seal) open(cookie string, now time.Time) (token string, good bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return "", false
	}
	plain, err := s.cookies.Open(nil, nil, sealed, nil)
	if err != nil || len(plain) < 8 || uint64(now.Unix()) >= binary.BigEndian.Uint64(plain) { //nolint:gosec // as above
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ended := s.ended[cookie]
	return string(plain[8:]), !ended
}

// end has a cookie be good no more, at this replica.
func (s *seal) end(cookie string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, until := range s.ended {
		if now.After(until) || len(s.ended) >= mostEnded {
			delete(s.ended, other)
		}
	}
	s.ended[cookie] = now.Add(loginTime)
}

// form is what pages of a client have in their forms, so that nobody else can have his browser send one.
func (s *seal) form(client string) string {
	sum := hmac.New(sha256.New, s.forms)
	_, _ = sum.Write([]byte(client))
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:18])
}

// tries counts the tokens that are being tried, by address.
type tries struct {
	mu  sync.Mutex // guards the fields below
	all int
	of  map[string]int
}

// enter lets few tokens be tried at a time. One that is wrong has its place for a second, so nobody tries many.
func (t *tries) enter(address string) (leave func(good bool), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all >= mostTries || t.of[address] >= triesOfOne {
		return nil, false
	}
	t.all++
	t.of[address]++
	return func(good bool) {
		if !good {
			time.Sleep(failedAfter)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.all--
		if t.of[address]--; t.of[address] == 0 {
			delete(t.of, address)
		}
	}, true
}
