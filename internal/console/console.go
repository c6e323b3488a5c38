package console

import (
	"bytes"
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Services are lockd as clients have it.
type Services interface {
	// As is a context for calls of somebody at an address, who showed a certificate or a header of authorization.
	As(ctx context.Context, addr string, state *tls.ConnectionState, authorization string) context.Context
	// Who is the client that somebody is, of the clients file; empty without a file.
	Who(ctx context.Context) (client string, err error)
	Inspect() lockdv1.InspectServiceClient
	Admin() lockdv1.AdminServiceClient
	Locks() lockdv1.LockServiceClient
}

// Config is what a Console is told at its start.
type Config struct {
	Path     string   // what all paths begin with, as /lockd; empty = nothing
	Hosts    []string // what browsers may call this address besides names of this machine; empty = anything
	Loopback bool     // it is an address of this machine: only names of this machine and Hosts are right for it
	Replica  string
	Version  string
}

// Console serves the pages.
type Console struct {
	cfg      Config
	services Services
	log      *zap.Logger
	looks    *cache
	slots    chan struct{} // for those who look something up
	logins   *logins
	open     *openPages
	mux      *http.ServeMux
	foreign  *http.CrossOriginProtection

	closing  context.Context
	close    context.CancelFunc
	examined sync.WaitGroup
}

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed static
var staticFiles embed.FS

var templates = template.Must(template.New("").Funcs(texts).ParseFS(pageFiles, "pages/*.html"))

// New makes a Console.
func New(cfg Config, s Services, log *zap.Logger) *Console {
	c := &Console{
		cfg: cfg, services: s, log: log.Named("console"), looks: newCache(), slots: make(chan struct{}, mostLooks),
		logins: newLogins(), open: newOpenPages(),
		mux: http.NewServeMux(), foreign: http.NewCrossOriginProtection(),
	}
	c.closing, c.close = context.WithCancel(context.Background())
	static, _ := fs.Sub(staticFiles, "static") // it is there
	c.mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(static)))
	for _, v := range views {
		at := v.path
		if at == "/" {
			at += "{$}" // and nothing below it
		}
		c.mux.HandleFunc("GET "+at, c.known(v, c.page))
		c.mux.HandleFunc("GET /live"+at, c.known(v, c.live))
	}
	c.mux.HandleFunc("GET /login", c.loginForm)
	c.mux.HandleFunc("POST /login", c.login)
	c.mux.HandleFunc("POST /logout", c.logout)
	c.mux.HandleFunc("POST /lock/force", c.known(nil, c.force))
	c.mux.HandleFunc("POST /lock/limit", c.known(nil, c.limit))
	c.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.problem(w, r, http.StatusNotFound, "There is no such page.")
	})
	return c
}

// Close ends pages that are open.
func (c *Console) Close() {
	c.close()
	c.examined.Wait()
}

// What one request may cost.
const (
	formBytes   = 64 << 10
	requestTime = 40 * time.Second
)

// policy has everything from here, and no script and style in pages.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(requestTime)) // a recorder of tests has none
	r.Body = http.MaxBytesReader(w, r.Body, formBytes)
	if !c.isOurs(r.Host) {
		c.problem(w, r, http.StatusMisdirectedRequest, "This address has another name: "+r.Host+
			" is not one of console.hosts.")
		return
	}
	if err := c.foreign.Check(r); err != nil {
		c.problem(w, r, http.StatusForbidden, "Another site asked for this: "+err.Error())
		return
	}
	path, below := strings.CutPrefix(r.URL.Path, c.cfg.Path)
	if !below || path != "" && path[0] != '/' { // an ingress took it away
		path = r.URL.Path
	}
	inner := new(http.Request)
	*inner = *r
	inner.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	if path == "" {
		inner.URL.Path = "/"
	}
	c.mux.ServeHTTP(w, inner)
}

// isOurs says whether a browser may call this address so. A name that another site has lead here would make its scripts
// our own.
func (c *Console) isOurs(hostport string) bool {
	if !c.cfg.Loopback && len(c.cfg.Hosts) == 0 {
		return true
	}
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback() || slices.ContainsFunc(c.cfg.Hosts, func(h string) bool {
		return strings.EqualFold(h, host)
	})
}

// frame is what all pages have.
type frame struct {
	Base, Title, Replica, Version string
	Client                        string // who looks; empty without a clients file
	LoggedIn                      bool
	Views                         []*view
	At                            *view // nil: none of them
	Query                         url.Values
	LiveURL                       string // where the part that changes is sent
	Part                          template.HTML
	Head                          any // what the view shows above it
	Said                          string
}

func (c *Console) frame(a asker, v *view, r *http.Request) frame {
	f := frame{
		Base: c.cfg.Path, Replica: c.cfg.Replica, Version: c.cfg.Version, Client: a.client, LoggedIn: a.byLogin, At: v,
		Views: views, Query: r.URL.Query(),
	}
	if v != nil {
		f.Title = v.Title
	}
	return f
}

// page answers with a whole page.
func (c *Console) page(w http.ResponseWriter, r *http.Request, a asker, v *view) {
	f := c.frame(a, v, r)
	p, err := c.part(a, v, f.Query)
	if err != nil {
		p = c.failed(err)
	}
	if v.head != nil {
		if f.Head, err = v.head(c, a, f.Query); err != nil {
			f.Head = nil
		}
	}
	if name := f.Query.Get("name"); name != "" {
		f.Title = readable(name) + " – " + f.Title
	}
	f.Part, f.Said = template.HTML(p.html), said[f.Query.Get("said")] //nolint:gosec // html/template made it
	f.LiveURL = c.cfg.Path + "/live" + v.path + "?" + v.query(f.Query).Encode()
	c.write(w, p.code, "page", f)
}

// said is what a page says of an act that led to it. Addresses of pages have no texts of their own.
var said = map[string]string{
	"released": "The lock was released by force. Its holders are told.", "free": "Nobody held it.",
	"limit": "The limit is set.", "removed": "The limit is removed.",
}

// problem answers with a page that only says what is wrong.
func (c *Console) problem(w http.ResponseWriter, r *http.Request, code int, text string) {
	f := c.frame(asker{}, nil, r)
	f.Title, f.Said = http.StatusText(code), text
	c.write(w, code, "problem", f)
}

func (c *Console) write(w http.ResponseWriter, code int, name string, f frame) {
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, name, f); err != nil {
		c.log.Error("a page cannot be written", zap.Error(err))
		http.Error(w, "the page cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(out.Bytes()) // who left does not matter
}

// failure is why a call failed.
func failure(err error) *lockdv1.Failure {
	if f, ok := errors.AsType[interface {
		error
		Failure() *lockdv1.Failure
	}](err); ok {
		return f.Failure()
	}
	return &lockdv1.Failure{Code: codeUnavailable, Message: err.Error()}
}

// Codes of gRPC.
const (
	codeInvalid         = 3
	codeDenied          = 7
	codeExhausted       = 8
	codePrecondition    = 9
	codeAborted         = 10
	codeUnavailable     = 14
	codeUnauthenticated = 16
)

// httpCode is the code of HTTP for one of gRPC.
func httpCode(code int32) int {
	switch code {
	case codeInvalid:
		return http.StatusBadRequest
	case codeDenied:
		return http.StatusForbidden
	case codeExhausted:
		return http.StatusTooManyRequests
	case codePrecondition, codeAborted:
		return http.StatusConflict
	case codeUnauthenticated:
		return http.StatusUnauthorized
	case codeUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
