package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// answerTimeout is how long the server may take for what needs no waiting.
const answerTimeout = 5 * time.Second

// retryPause is the time between two tries.
const retryPause = 200 * time.Millisecond

// services are the server's calls that need no session.
type services struct {
	conns []*replicas
	locks lockdv1.LockServiceClient
	reads lockdv1.InspectServiceClient
	// At the address for operators.
	admin      lockdv1.AdminServiceClient
	adminReads lockdv1.InspectServiceClient

	connectTimeout time.Duration
	sent           sentRequests
}

// dial does not connect yet: the first call does.
func (o *options) dial(context.Context) (*services, error) {
	s := &services{connectTimeout: o.connectTimeout}
	creds, err := o.credentials()
	if err != nil {
		return nil, err
	}
	conn, err := newReplicas(o.addr, client.DefaultPort, creds, &s.sent)
	if err != nil {
		return nil, usagef("--addr %s: %w", quoted(o.addr), err)
	}
	admin, err := newReplicas(o.adminAddr, adminPort, creds, &s.sent)
	if err != nil {
		conn.close()
		return nil, usagef("--admin-addr %s: %w", quoted(o.adminAddr), err)
	}
	s.conns = []*replicas{conn, admin}
	s.locks, s.reads = lockdv1.NewLockServiceClient(conn), lockdv1.NewInspectServiceClient(conn)
	s.admin, s.adminReads = lockdv1.NewAdminServiceClient(admin), lockdv1.NewInspectServiceClient(admin)
	return s, nil
}

func (s *services) close() {
	for _, conn := range s.conns {
		conn.close()
	}
}

// call runs f with the services, until a signal comes.
func (o *options) call(cmd *cobra.Command, f func(ctx context.Context, s *services) error) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	s, err := o.dial(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	return f(ctx, s)
}

// question is what a command asks the server, and what it shows then.
type question func(ctx context.Context, s *services, args []string) (shown, error)

// asks runs a command that asks the server once.
func (o *options) asks(q question) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return o.call(cmd, func(ctx context.Context, s *services) error {
			v, err := q(ctx, s, args)
			if err != nil {
				return wrap(cmd.Name(), args, err)
			}
			return o.show(cmd, v)
		})
	}
}

// operates is asks for a command, as a user types it, that is asked at the operators' address. Who names a server for
// clients alone means that one, and not the one that runs here.
func (o *options) operates(typed string, q question) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		given := func(flag, env string) bool { return cmd.Flags().Changed(flag) || os.Getenv(env) != "" }
		if given("addr", addrEnv) && !given("admin-addr", adminAddrEnv) {
			return usagef("%s asks the server at its address for operators (admin_listen, port %d), and --addr %s is "+
				"the one for clients; say --admin-addr HOST:PORT (%s)", typed, adminPort, quoted(o.addr), adminAddrEnv)
		}
		return o.asks(q)(cmd, args)
	}
}

// method is that of a generated stub.
type method[Q, R any] func(ctx context.Context, request Q, opts ...grpc.CallOption) (R, error)

// ask makes a call that changes nothing.
func ask[Q, R any](ctx context.Context, s *services, m method[Q, R], request Q) (R, error) {
	return retry(ctx, s, 0, func(ctx context.Context) (R, error) { return m(ctx, request) })
}

// retry makes a call, which may wait for some time, and repeats it while the server cannot be reached or the outcome
// is unknown, no longer than the connect timeout. The call must be one that can be repeated.
func retry[T any](ctx context.Context, s *services, wait time.Duration,
	call func(context.Context) (T, error),
) (T, error) {
	var failing time.Time // since when
	for {
		t, err := once(ctx, wait+answerTimeout, call)
		switch {
		case err == nil:
			return t, nil
		case ctx.Err() != nil:
			return t, context.Cause(ctx)
		case !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, client.ErrOutcomeUnknown) &&
			!errors.Is(err, client.ErrDraining):
			return t, err
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) >= s.connectTimeout:
			return t, err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
	}
}

// change is retry for a call that changes something. unsure says that a try which is not known to have done nothing may
// have been executed, whatever later ones were told.
func change[T any](ctx context.Context, s *services, wait time.Duration,
	call func(context.Context) (T, error),
) (t T, unsure bool, err error) {
	t, err = retry(ctx, s, wait, func(ctx context.Context) (T, error) {
		s.sent.any.Store(false)
		t, err := call(ctx)
		unsure = unsure || s.sent.any.Load() && mayHaveActed(client.FromStatus(err))
		return t, err
	})
	return t, unsure, err
}

// mayHaveActed says whether a call that was sent may have been executed although it failed: nobody answered it, or the
// server does not know either.
func mayHaveActed(err error) bool {
	if err == nil {
		return false
	}
	switch client.Reason(err) {
	case "", "UNAVAILABLE", "OUTCOME_UNKNOWN": // the first two are not told by lockd
		return true
	}
	return false
}

// certain makes a call that changes something and need not be undone. What an earlier try may have done counts: then
// the outcome is unknown, and not that the server is away.
func certain[Q, R any](ctx context.Context, s *services, m method[Q, R], request Q) (R, error) {
	r, unsure, err := change(ctx, s, 0, func(ctx context.Context) (R, error) { return m(ctx, request) })
	if unsure {
		err = outcome(err)
	}
	return r, err
}

// outcome is the error of a change of which an earlier try may have been executed.
func outcome(err error) error {
	if errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrDraining) {
		return client.ErrOutcomeUnknown
	}
	return err
}

func once[T any](ctx context.Context, bound time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errors.New("the server did not answer in time"))
	defer cancel()
	t, err := call(ctx)
	return t, client.FromStatus(err)
}

// dialSession makes the SDK's client, for what needs a session. The command is what the client is named after.
func (o *options) dialSession(command string, opts ...client.Option) (*client.Client, error) {
	secure, err := o.tls.use()
	if err != nil {
		return nil, err
	}
	if secure != nil {
		if _, err := secure.Credentials(); err != nil { // not a mistake in --addr
			return nil, usageError{err}
		}
		opts = append(opts, client.WithTLS(*secure))
	}
	opts = append([]client.Option{
		client.WithName(o.client(command)), client.WithLabels(o.labels), client.WithConnectWait(o.connectTimeout),
	}, opts...)
	c, err := client.Dial(o.addr, opts...)
	switch {
	case errors.Is(err, client.ErrInvalid): // not --addr
		return nil, err
	case err != nil:
		return nil, usagef("--addr: %w", err)
	}
	return c, nil
}

// exactly checks the number of arguments.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("usage: lockctl %s", cmd.Use)
		}
		return nil
	}
}

// page calls next until there are no more pages.
func page(next func(token string) (string, error)) error {
	for token := ""; ; {
		var err error
		if token, err = next(token); err != nil || token == "" {
			return err
		}
	}
}

// wrap says what failed: a verb, and the name that it was for, if any.
func wrap(verb string, args []string, err error) error {
	if len(args) > 0 {
		verb += " " + quoted(args[0])
	}
	return fmt.Errorf("%s: %w", verb, err)
}

// quotedBytes is how much of a text from the command line an error repeats.
const quotedBytes = 128

// quoted is a text in an error. Of a very long one it is the beginning.
func quoted(text string) string {
	if len(text) <= quotedBytes {
		return strconv.Quote(text)
	}
	return fmt.Sprintf("%q… (%d bytes)", strings.ToValidUTF8(text[:quotedBytes], ""), len(text))
}
