// Package httpapi lets clients make lockd's unary calls by HTTP/JSON.
//
// A request is read in whole, and the generated package gateway makes a call of it, as api/http.yaml says. From there
// on Calls treats it as a call by gRPC: identity, rights, quotas, limits and audit are there and not here. Package web
// writes the answer. If a client goes while its call waits, the call ends.
//
// Beside the calls there are addresses for the locks of Terraform, see terraform.go, and the description of all this
// for programs. Streams are not offered.
package httpapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	gateway "github.com/lockd-io/lockd/api/gen/go/gateway/lockd/v1"
	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/api/gen/openapi"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/web"
)

// Calls makes the calls of a request.
type Calls interface {
	grpc.ClientConnInterface
	// Visit lets in a request from an address, over TLS unless secure is nil, with its Authorization headers and the price
	// of its header. The request's calls are made with inside. err is a status. leave is called, also after an error, once
	// the answer was read or never will be.
	Visit(ctx context.Context, from string, secure *tls.ConnectionState, authorization []string, price time.Duration) (
		inside context.Context, leave func(), err error)
	// Pay charges an address for what a request of its costs besides.
	Pay(from string, price time.Duration)
	// Denied counts a request that is refused because there are limit of a subject already, and returns its status.
	Denied(subject string, limit int) error
}

type handler struct {
	calls   Calls
	locks   lockdv1.LockServiceClient
	inspect lockdv1.InspectServiceClient
	mux     *runtime.ServeMux
	json    *strictJSON
	bodies  *web.Bodies
	foreign *http.CrossOriginProtection
	most    time.Duration // a lease

	loopback bool
}

// New makes the handler of all requests. If loopback is set, it refuses requests without TLS whose Host is neither an
// IP address nor localhost.
func New(calls Calls, l limits.Limits, loopback bool) (http.Handler, error) {
	h := &handler{
		calls: calls, locks: lockdv1.NewLockServiceClient(calls), inspect: lockdv1.NewInspectServiceClient(calls),
		json:   &strictJSON{runtime.JSONPb{MarshalOptions: protojson.MarshalOptions{EmitDefaultValues: true}}},
		bodies: web.NewBodies(bodyBytes(l)), foreign: http.NewCrossOriginProtection(), most: l.MaxLease,
		loopback: loopback,
	}
	beStrict()
	h.mux = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, h.json),
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithMetadata(func(_ context.Context, r *http.Request) metadata.MD {
			return metadata.MD{"traceparent": r.Header["Traceparent"], "tracestate": r.Header["Tracestate"]}
		}),
		runtime.WithDisablePathLengthFallback(), runtime.WithDisableHTTPMethodOverride(),
		runtime.WithErrorHandler(func(
			_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error,
		) {
			h.fail(w, err)
		}),
		runtime.WithRoutingErrorHandler(func(
			_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int,
		) {
			h.lost(w, r, code)
		}),
	)
	ctx := context.Background()
	err := errors.Join(
		gateway.RegisterLockServiceHandlerClient(ctx, h.mux, h.locks),
		gateway.RegisterInspectServiceHandlerClient(ctx, h.mux, h.inspect),
		gateway.RegisterAdminServiceHandlerClient(ctx, h.mux, lockdv1.NewAdminServiceClient(calls)))
	return h, err
}

// bodyBytes is how many bytes a body may have: some more than the message of a call, for what JSON has to escape.
func bodyBytes(l limits.Limits) int {
	const spare, escaped = 16 << 10, 4
	return spare + escaped*(l.NameBytes+l.HolderBytes+l.AnnotationBytes)
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, leave, err := h.calls.Visit(r.Context(), r.RemoteAddr, r.TLS, authorization(r), priceOfHeader(r))
	defer leave()
	if err == nil {
		err = h.acceptable(r)
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	body, err := h.bodies.Read(w, r)
	h.calls.Pay(r.RemoteAddr, priceOfBody(r, len(body)))
	if err != nil {
		h.fail(w, h.unread(err))
		return
	}
	r = r.WithContext(ctx)
	r.Header.Del("Content-Type") // all is JSON here; the gateway would log an unreadable one as it is
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch path := r.URL.Path; {
	case path == "/openapi.json" && r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openapi.JSON)
	case path == terraformPath:
		h.terraform(w, r, body)
	default:
		h.mux.ServeHTTP(w, r)
	}
}

// acceptable refuses a request that a proxy could take for another one, or that a page of another site made a browser
// send.
func (h *handler) acceptable(r *http.Request) error {
	switch {
	case h.foreign.Check(r) != nil: // the page could take locks of a lockd that its user can reach
		return refusal(codes.PermissionDenied, "FORBIDDEN", "a browser asks for the page of another site")
	case h.loopback && r.TLS == nil && r.Host != "" && !web.IsHere(r.Host):
		return errMisled
	case r.URL.RawPath != "": // to a proxy it may be another path
		return refusal(codes.InvalidArgument, "INVALID_MESSAGE", "a path has no encoded characters")
	case r.URL.RawQuery != "" && r.Method == http.MethodPost && r.URL.Path != terraformPath:
		return refusal(codes.InvalidArgument, "INVALID_MESSAGE", "the fields of a POST are in its body, and not in the query")
	}
	return nil
}

// authorization returns a request's Authorization headers. Terraform can only send a user and a password: its password
// is the token.
func authorization(r *http.Request) []string {
	all := r.Header["Authorization"] // two are invalid
	if _, token, ok := r.BasicAuth(); ok && len(all) == 1 && r.URL.Path == terraformPath {
		return []string{"Bearer " + token}
	}
	return all
}

// refusal is a status with a reason, for a request that becomes no call.
func refusal(code codes.Code, reason, text string) error {
	st, err := status.New(code, text).WithDetails(&errdetails.ErrorInfo{Domain: "lockd.io", Reason: reason})
	if err != nil { // cannot be: the detail is a message
		return status.Error(code, text)
	}
	return st.Err()
}

// errMisled is for a browser that a page of another site may have led here.
var errMisled = &runtime.HTTPStatusError{
	HTTPStatus: http.StatusMisdirectedRequest,
	Err: refusal(codes.PermissionDenied, "FORBIDDEN", "a loopback address is asked for by the name of another host: "+
		"a proxy has to send this address as Host"),
}

// unread is the refusal of a body that was not read.
func (h *handler) unread(err error) error {
	if errors.Is(err, web.ErrTooLarge) {
		err = refusal(codes.ResourceExhausted, "FRAME_TOO_LARGE", err.Error())
		return &runtime.HTTPStatusError{HTTPStatus: http.StatusRequestEntityTooLarge, Err: err}
	}
	if many, ok := errors.AsType[*web.TooManyError](err); ok {
		return h.calls.Denied("bodies", many.Limit)
	}
	err = refusal(codes.DeadlineExceeded, "INVALID_MESSAGE", "the body did not come, or not in time")
	return &runtime.HTTPStatusError{HTTPStatus: http.StatusRequestTimeout, Err: err}
}

// lost answers a request for which there is no call.
func (h *handler) lost(w http.ResponseWriter, r *http.Request, code int) {
	text := fmt.Sprintf("there is no %s %s: see /openapi.json", brief(r.Method), brief(r.URL.Path))
	if strings.HasPrefix(r.URL.Path, "/lockd.v1.") || strings.HasPrefix(r.URL.Path, "/grpc.") {
		code, text = http.StatusNotImplemented, "this is a path of gRPC, which is spoken at listen; the paths of unary "+
			"calls by HTTP are in /openapi.json, and sessions, which are streams, are offered by gRPC only"
	}
	h.fail(w, &runtime.HTTPStatusError{HTTPStatus: code, Err: refusal(codes.Unimplemented, "UNIMPLEMENTED", text)})
}

// fail writes an error: a google.rpc.Status.
func (h *handler) fail(w http.ResponseWriter, err error) {
	code := 0
	if other, ok := errors.AsType[*runtime.HTTPStatusError](err); ok {
		code, err = other.HTTPStatus, other.Err
	}
	st := status.Convert(err)
	if st.Code() == codes.InvalidArgument && len(st.Details()) == 0 { // the gateway could not read it
		st = status.Convert(refusal(codes.InvalidArgument, "INVALID_MESSAGE", brief(st.Message())))
	}
	if code == 0 {
		code = runtime.HTTPStatusFromCode(st.Code())
	}
	for _, d := range st.Details() {
		if retry, ok := d.(*errdetails.RetryInfo); ok {
			seconds := (retry.GetRetryDelay().AsDuration() + time.Second - 1) / time.Second
			w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
		}
	}
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	h.write(w, code, st.Proto())
}

func (h *handler) write(w http.ResponseWriter, code int, m proto.Message) {
	text, err := h.json.Marshal(m)
	if err != nil { // cannot be: all texts are UTF-8
		code, text = http.StatusInternalServerError, []byte(`{"code":13}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text)
}
