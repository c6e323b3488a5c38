package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// retryPause is the time between two tries of anything.
const retryPause = 200 * time.Millisecond

// services are the server's calls that need no session. Only one goroutine may make them.
type services struct {
	conn, admin *replicas // admin is at the address for operators, and so are admins and adminReads
	locks       lockdv1.LockServiceClient
	reads       lockdv1.InspectServiceClient
	admins      lockdv1.AdminServiceClient
	adminReads  lockdv1.InspectServiceClient

	connectTimeout time.Duration
}

// dial does not connect yet: the first call does.
func (o *options) dial() (*services, error) {
	opts, err := o.dialOptions()
	if err != nil {
		return nil, err
	}
	conn, err := newReplicas(o.addr, client.DefaultPort, opts)
	if err != nil {
		return nil, usagef("--addr %s: %w", quoted(o.addr), err)
	}
	adminAddr, port := o.adminAddr, adminPort
	if adminAddr == "" { // a client may have the rights of operators
		adminAddr, port = o.addr, client.DefaultPort
	}
	admin, err := newReplicas(adminAddr, port, opts)
	if err != nil {
		conn.close()
		return nil, usagef("--admin-addr %s: %w", quoted(adminAddr), err)
	}
	return &services{
		conn: conn, locks: lockdv1.NewLockServiceClient(conn), reads: lockdv1.NewInspectServiceClient(conn),
		admin: admin, admins: lockdv1.NewAdminServiceClient(admin), adminReads: lockdv1.NewInspectServiceClient(admin),
		connectTimeout: o.connectTimeout,
	}, nil
}

func (s *services) close() {
	s.conn.close()
	s.admin.close()
}

// runs has a command call f, whose context ends when a signal comes, and print what f returns.
func (o *options) runs(
	f func(ctx context.Context, cmd *cobra.Command, args []string) (shown, error),
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		v, err := f(ctx, cmd, args)
		if err != nil {
			return wrap(cmd.Name(), args, err)
		}
		return o.show(cmd, v)
	}
}

// question is what a command asks the server, and what it shows then.
type question func(ctx context.Context, s *services, args []string) (shown, error)

// asks runs a command that asks the server.
func (o *options) asks(q question) func(*cobra.Command, []string) error {
	return o.runs(func(ctx context.Context, _ *cobra.Command, args []string) (shown, error) {
		s, err := o.dial()
		if err != nil {
			return shown{}, err
		}
		defer s.close()
		return q(ctx, s, args)
	})
}

// operates is asks for a command that asks the server at its address for operators.
func (o *options) operates(q question) func(*cobra.Command, []string) error {
	return o.asks(func(ctx context.Context, s *services, args []string) (shown, error) {
		if err := o.namesOperators(); err != nil {
			return shown{}, err
		}
		return q(ctx, s, args)
	})
}

// namesOperators refuses --addr without --admin-addr: it must not fall back to the operators' address of a server on
// this machine.
func (o *options) namesOperators() error {
	given := func(flag, env string) bool { return o.tls.set.Changed(flag) || os.Getenv(env) != "" }
	if given("addr", addrEnv) && !given("admin-addr", adminAddrEnv) {
		return usagef("this is asked at the server's address for operators (admin_listen, port %d), and --addr %s is "+
			"the one for clients; say --admin-addr HOST:PORT (%s), or --admin-addr '' if your client has the right there",
			adminPort, quoted(o.addr), adminAddrEnv)
	}
	return nil
}

// method is that of a generated stub.
type method[Q, R any] func(ctx context.Context, request Q, opts ...grpc.CallOption) (R, error)

// ask makes a call that changes nothing.
func ask[Q, R any](ctx context.Context, s *services, m method[Q, R], request Q) (R, error) {
	r, _, err := retry(ctx, s, 0, func(ctx context.Context) (R, error) { return m(ctx, request) })
	return r, err
}

// change makes a call that changes something and need not be undone. unsure says that a try which failed may have been
// carried out: then the error is ErrOutcomeUnknown, not ErrUnavailable.
func change[Q, R any](ctx context.Context, s *services, m method[Q, R], request Q) (r R, unsure bool, err error) {
	r, unsure, err = retry(ctx, s, 0, func(ctx context.Context) (R, error) { return m(ctx, request) })
	if unsure && (errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrDraining)) {
		err = client.ErrOutcomeUnknown
	}
	return r, unsure, err
}

var errLate = errors.New("the server did not answer in time")

// undecided are the reasons of calls that may have been carried out although they failed: nobody answered, or the
// server does not know either. The first two are not lockd's.
var undecided = []string{"", "UNAVAILABLE", "OUTCOME_UNKNOWN"}

// retry makes a call, which the server may answer as late as after wait. It repeats the call while the server cannot be
// reached or the outcome is unknown, until the connect timeout after the first failure. The call must be one that can
// be repeated. unsure says that a try which failed may have been carried out, whatever later tries returned.
func retry[T any](ctx context.Context, s *services, wait time.Duration,
	call func(context.Context) (T, error),
) (t T, unsure bool, err error) {
	var failing time.Time // since when
	for {
		s.conn.sent, s.admin.sent = false, false
		bounded, cancel := context.WithTimeoutCause(ctx, wait+client.DefaultAnswerTimeout, errLate)
		t, err = call(bounded)
		cancel()
		err = client.FromStatus(err)
		unsure = unsure || err != nil && (s.conn.sent || s.admin.sent) && slices.Contains(undecided, client.Reason(err))
		switch {
		case err == nil:
			return t, unsure, nil
		case ctx.Err() != nil:
			return t, unsure, context.Cause(ctx)
		case !repeatable(err):
			return t, unsure, err
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) >= s.connectTimeout:
			return t, unsure, err
		}
		sleep(ctx, retryPause)
	}
}

// repeatable says whether an error only means that nobody could answer: a later try may be answered.
func repeatable(err error) bool {
	return errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrOutcomeUnknown) ||
		errors.Is(err, client.ErrDraining)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// dialSession makes a client of the SDK, for commands that need a session. The client is named after the command.
func (o *options) dialSession(command string, opts ...client.Option) (*client.Client, error) {
	dial, err := o.dialOptions()
	if err != nil {
		return nil, err
	}
	opts = append([]client.Option{
		client.WithName(o.client(command)), client.WithLabels(o.labels), client.WithConnectWait(o.connectTimeout),
		client.WithDialOptions(dial...),
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

// wrap says what failed: a verb, and the name that it was for, if any.
func wrap(verb string, args []string, err error) error {
	if len(args) > 0 {
		verb += " " + quoted(args[0])
	}
	return fmt.Errorf("%s: %w", verb, err)
}

// quotedBytes is how much of a text from the command line an error repeats.
const quotedBytes = 128

// quoted is a text as errors show it: of a very long one the beginning.
func quoted(text string) string {
	if len(text) <= quotedBytes {
		return strconv.Quote(text)
	}
	return fmt.Sprintf("%.*q… (%d bytes)", quotedBytes, text, len(text))
}
