package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"embed"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/web"
)

// Calls makes calls of the API as somebody.
type Calls interface {
	grpc.ClientConnInterface
	// Visit lets somebody in who comes from an address, over TLS unless secure is nil, and shows authorization. He pays
	// price besides what his calls cost. Make calls with the context inside. The error is a status. Call leave, also after
	// an error, when the answer was read or will not be.
	Visit(
		ctx context.Context, from string, secure *tls.ConnectionState, authorization []string, price time.Duration,
	) (inside context.Context, leave func(), err error)
}

// Config is what a Console is told at its start.
type Config struct {
	Path     string   // what all paths begin with, such as /lockd; empty = nothing
	Hosts    []string // what browsers may call this address besides names of this machine; empty = anything
	KeyFile  string   // of the key that seals cookies; empty = a key of this process
	Loopback bool     // it is an address of this machine: only names of this machine and Hosts are right for it
	Replica  string
	Version  string
	// Clients are those of the clients file. They are shown to those who may examine a replica.
	Clients func() []Client
	Numbers prometheus.Gatherer // of this replica, as Prometheus has them
	// Examine examines the replica for those who look without a clients file; nil: nobody may.
	Examine func(ctx context.Context) []lock.Finding
}

// Client is one of the clients file: the names that it may lock, those that it may only look at, those that it may not
// use at all, its rights as an operator, and its bounds on each replica.
type Client struct {
	Name                    string
	Lock, Look, Deny, Admin []string
	Quota                   limits.Allowance
}

// Console serves the pages.
type Console struct {
	cfg     Config
	calls   Calls
	log     *zap.Logger
	looks   cache
	whos    cache
	slots   chan struct{} // for those who look something up
	open    openPages
	numbers numbers
	seal    *seal
	bodies  *web.Bodies
	routes  map[string]http.HandlerFunc // by method and path, exactly: net/http's mux would redirect by itself
	foreign *http.CrossOriginProtection

	mu      sync.Mutex // guards the start of goroutines against the end of closing
	closing context.Context
	close   context.CancelFunc
	running sync.WaitGroup
}

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed static
var staticFiles embed.FS

var templates = template.Must(template.New("").Funcs(texts).ParseFS(pageFiles, "pages/*.html"))

// New makes a Console. Its error is about the file of the key, or the path.
func New(cfg Config, calls Calls, log *zap.Logger) (*Console, error) {
	seal, err := newSeal(cfg.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("console.key_file: %w", err)
	}
	c := &Console{
		cfg: cfg, calls: calls, log: log.Named("console"), looks: cache{all: map[string]*kept{}},
		whos:  cache{all: map[string]*kept{}},
		slots: make(chan struct{}, mostLooks), open: openPages{of: map[string]int{}},
		seal: seal, bodies: web.NewBodies(formBytes), routes: map[string]http.HandlerFunc{},
		foreign: http.NewCrossOriginProtection(),
	}
	c.closing, c.close = context.WithCancel(context.Background())
	c.offer()
	for route := range c.routes { // behind an ingress that takes the path away nobody could tell them apart
		if _, at, _ := strings.Cut(route, " "); cfg.Path != "" && strings.HasPrefix(at+"/", cfg.Path+"/") {
			return nil, fmt.Errorf("console.path: %s is that of a page of the console", cfg.Path)
		}
	}
	return c, nil
}

// offer fills the routes.
func (c *Console) offer() {
	files, _ := staticFiles.ReadDir("static") // it is there
	for _, f := range files {
		text, _ := staticFiles.ReadFile("static/" + f.Name())
		c.routes["GET /static/"+f.Name()] = func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, f.Name(), time.Time{}, bytes.NewReader(text))
		}
	}
	for _, v := range views {
		c.routes["GET "+v.Path] = c.known(c.page(v))
		c.routes["GET /live"+v.Path] = c.known(c.live(v))
	}
	c.routes["GET /login"] = c.loginForm
	c.routes["POST /login"] = c.login
	c.routes["POST /logout"] = c.act(c.logout)
	c.routes["POST /lock/force"] = c.act(c.force)
	c.routes["POST /lock/limit"] = c.act(c.limit)
	c.routes["POST /session/end"] = c.act(c.end)
}

// goes starts a goroutine that Close waits for. After Close it starts none.
func (c *Console) goes(run func()) (started bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Err() != nil {
		return false
	}
	c.running.Go(run)
	return true
}

// Close ends the open pages, and waits for what is under way.
func (c *Console) Close() {
	c.mu.Lock()
	c.close()
	c.mu.Unlock()
	c.running.Wait()
	c.looks.close()
	c.whos.close()
}

// formBytes is how large a form may be. A name of the largest kind, each byte of it escaped, has room.
const formBytes = 16 << 10

// policy lets pages load everything from here only, and have no script and style in them.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if !c.isOurs(r.Host) {
		c.problem(w, r, http.StatusMisdirectedRequest, "This address has another name: "+r.Host+
			" is not one of console.hosts.")
		return
	}
	if err := c.foreign.Check(r); err != nil {
		c.problem(w, r, http.StatusForbidden, "Another site asked for this: "+err.Error())
		return
	}
	body, err := c.bodies.Read(w, r) // all requests: from then on their contexts end when the browser goes
	if err != nil {
		c.problem(w, r, http.StatusBadRequest, "The form was not read: "+err.Error())
		return
	}
	path := r.URL.Path
	if rest, below := strings.CutPrefix(path, c.cfg.Path); below && (rest == "" || rest[0] == '/') {
		path = cmp.Or(rest, "/")
	} // else an ingress took it away
	inner := new(http.Request)
	*inner = *r
	inner.Body = io.NopCloser(bytes.NewReader(body))
	inner.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	serve := c.routes[method+" "+path]
	if serve == nil {
		c.problem(w, inner, http.StatusNotFound, "There is no such page.")
		return
	}
	serve(w, inner)
}

// isOurs says whether a browser may call this address by this name. If another site makes its own name lead here,
// browsers take its scripts for ours.
func (c *Console) isOurs(hostport string) bool {
	if !c.cfg.Loopback && len(c.cfg.Hosts) == 0 {
		return true
	}
	return web.IsHere(hostport) || slices.ContainsFunc(c.cfg.Hosts, func(h string) bool {
		name, _, _ := net.SplitHostPort(hostport)
		return strings.EqualFold(h, strings.TrimSuffix(cmp.Or(name, hostport), "."))
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
	Said, Form                    string
}

// frame is the frame of a page. a is nil if nobody is known to look, v if the page is no view.
func (c *Console) frame(a *asker, v *view, r *http.Request) frame {
	f := frame{Base: c.cfg.Path, Replica: c.cfg.Replica, Version: c.cfg.Version, At: v, Query: r.URL.Query()}
	if a != nil {
		f.Client, f.LoggedIn, f.Form, f.Views = a.client, a.byLogin, c.seal.form(a.client), views
	}
	if v != nil {
		f.Title = v.Title
	}
	return f
}

// page answers with a whole page.
func (c *Console) page(v *view) handler {
	return func(w http.ResponseWriter, r *http.Request, a *asker) {
		f := c.frame(a, v, r)
		p := c.part(r.Context(), a, v, f.Query)
		if v.head != nil {
			f.Head, _ = v.head(r.Context(), c, a, f.Query) // the part says what is wrong
		}
		if name := f.Query.Get("name"); name != "" {
			f.Title = readable(name) + " – " + f.Title
		}
		f.Part, f.Said = template.HTML(p.html), said[f.Query.Get("said")] //nolint:gosec // html/template made it
		f.LiveURL = c.cfg.Path + "/live" + v.Path + "?" + v.query(f.Query).Encode()
		c.write(w, p.code, "page", f)
	}
}

// said is what a page says of an act that led to it. The address of a page has the key of such a text only.
var said = map[string]string{
	"released": "The lock was released by force. Its holders are told.", "free": "Nobody held it.",
	"limit": "The limit is set.", "removed": "The limit is removed.",
	"ended":  "The session was ended. Its client is told, and what it held is released.",
	"left":   "The session was ended. What it held is not known to be released, and runs out at the latest.",
	"gone":   "There was no such session.",
	"unsure": "It is not known whether the session has ended: a replica that may have it did not answer. Try again.",
	"over":   "Your login is over: it has ended, or is of a replica with another key. Log in again.",
}

// problem answers with a page that only says what is wrong.
func (c *Console) problem(w http.ResponseWriter, r *http.Request, code int, text string) {
	f := c.frame(nil, nil, r)
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

// httpCodes are those for statuses of calls; what is not here is an error of ours.
var httpCodes = map[codes.Code]int{
	codes.InvalidArgument: http.StatusBadRequest, codes.PermissionDenied: http.StatusForbidden,
	codes.NotFound: http.StatusNotFound, codes.ResourceExhausted: http.StatusTooManyRequests,
	codes.FailedPrecondition: http.StatusConflict, codes.Aborted: http.StatusConflict,
	codes.Unauthenticated: http.StatusUnauthorized, codes.Unavailable: http.StatusServiceUnavailable,
	codes.DeadlineExceeded: http.StatusServiceUnavailable, codes.Canceled: http.StatusServiceUnavailable,
}

// httpCode is the code of HTTP for the status of a call.
func httpCode(err error) int {
	return cmp.Or(httpCodes[status.Code(err)], http.StatusInternalServerError)
}

// explained is the status of a call for people.
func explained(err error) string {
	st := status.Convert(err)
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return readable(st.Message()) + " (" + info.GetReason() + ")"
		}
	}
	return readable(st.Message())
}
