package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockd-io/lockd/client"
)

// tellPause is the shortest time between two things that people are told while exec waits.
const tellPause = time.Second

const execHelp = `exec waits for the lock NAME, runs the command while it holds the lock, and exits with the command's
code, or 128+n if signal n killed it. The command finds LOCKD_NAME and LOCKD_FENCE in its environment.

Without --wait exec waits for ever: while somebody else holds the lock, and while the server or its Redis is away. It
tells on stderr what it waits for. With --connect-timeout it gives up when the server, or its Redis, cannot be reached
for so long.

With --also it holds none of the locks until it has all, and if one is lost that counts as the loss of all. LOCKD_NAMES
and LOCKD_FENCES have a line for each, and for those of the execs around this one, whose names this exec is refused.

The command runs in a process group of its own, to which signals are passed on. What it leaves behind in the group is
ended, too. When the lock is lost the group gets SIGTERM, and SIGKILL 0.2 s later. When lockctl is cut off from the
server both come before the lease can be given to somebody else.

Exit codes of exec itself: 64 wrong usage; 69 server unavailable; 70 the lock was lost; 75 the lock was not obtained in
time; 77 not allowed; 126 and 127 the command cannot be run or is not found; 128+n ended by signal n.`

// execution is one run of exec.
type execution struct {
	items   []client.Item
	argv    []string
	lock    []client.LockOption
	bounded bool          // whether wait counts
	wait    time.Duration // for the locks
	most    time.Duration // how long they are held at most; 0 is no bound
	inspect func(ctx context.Context, name string, waiters uint32) (inspectView, error)
	patient bool          // goes on while the server cannot be reached
	connect time.Duration // how long it goes on while the store cannot be reached, unless it is patient
	actor   string        // of this exec and of those inside of it
	client  *client.Client
	signals chan os.Signal
	stderr  io.Writer

	mu   sync.Mutex // guards the fields below, and stderr
	told string     // what exec waits for, as it was told last
	why  string     // the last reason that was told for which the server refused the credentials
	id   string     // of the session
}

// actorEnv names the actor of all execs of a script that runs one at a time. exec sets it for its command, too: while
// an exec inside of it waits, nothing else goes on.
const actorEnv = "LOCKD_ACTOR"

func newExec(o *options) *cobra.Command {
	var wait, ttl time.Duration
	var annotation string
	var fail bool
	var want wanted
	var held terms
	cmd := &cobra.Command{
		Use:   "exec NAME [flags] -- COMMAND [ARG...]",
		Short: "Run a command while holding a lock",
		Long:  execHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 1 || len(args) < 2 {
				return usagef("usage: lockctl %s", cmd.Use)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkWait(wait); err != nil {
				return err
			}
			x := &execution{
				argv: args[1:], stderr: cmd.ErrOrStderr(),
				bounded: cmd.Flags().Changed("wait"), wait: wait, patient: !cmd.Flags().Changed("connect-timeout"),
				connect: o.connectTimeout, actor: cmp.Or(os.Getenv(actorEnv), client.NewActor()),
			}
			x.lock = []client.LockOption{client.Annotation(cmp.Or(annotation, args[1])), client.OnQueued(x.queued())}
			x.lock, x.most = append(x.lock, held.options(cmd)...), held.most
			var err error
			if x.items, err = want.items(args[0]); err != nil {
				return err
			}
			if err := refuseNested(x.items, os.Getenv(namesEnv)); err != nil {
				return err
			}
			s, err := o.dial()
			if err != nil {
				return err
			}
			defer s.close()
			x.inspect = s.inspect
			if x.client, err = o.dialSession("exec "+args[1], x.session(ttl, fail)...); err != nil {
				return err
			}
			defer x.client.Close() //nolint:errcheck // what it could not release ends by itself
			return x.run(cmd.Context())
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait for the lock; 0 = try once; without it for ever")
	held.flags(cmd)
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "how long the lock outlives lockctl at most (default the server's)")
	cmd.Flags().StringVar(&annotation, "annotation", "", "a `text` for people who look at the lock (default the command)")
	cmd.Flags().BoolVar(&fail, "fail-on-deadlock", false,
		"give up when it waits in a deadlock and came last; the execs inside of one another are one thread of work, "+
			"which "+actorEnv+" names")
	want.flags(cmd)
	cmd.Flags().StringArrayVar(&want.also, "also", nil,
		"lock this name as well, all or none; may be repeated: `[KIND:]NAME`, or :NAME for a name that has a colon")
	return cmd
}

// terms are how long the lock is held.
type terms struct{ lease, most time.Duration }

func (h *terms) flags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&h.lease, "lease", 0, "take a lease that ends after this time, instead of one that is renewed")
	cmd.Flags().DurationVar(&h.most, "max-hold", 0,
		"how long the lock is held at most: then the command is ended, so that one that hangs does not keep the lock")
}

func (h *terms) options(cmd *cobra.Command) (opts []client.LockOption) {
	if cmd.Flags().Changed("lease") {
		opts = append(opts, client.Lease(h.lease))
	}
	if cmd.Flags().Changed("max-hold") {
		opts = append(opts, client.MaxHold(h.most))
	}
	return opts
}

// session is what exec tells the server of its session.
func (x *execution) session(ttl time.Duration, fail bool) []client.Option {
	opts := []client.Option{client.WithActor(x.actor), client.WithSessionTTL(ttl), client.WithOnStatus(x.tell)}
	if fail {
		opts = append(opts, client.WithFailOnDeadlock())
	}
	if x.patient {
		opts = append(opts, client.WithConnectWait(2*tellPause))
	}
	return opts
}

// tell says what people may want to know of the lock at risk.
func (x *execution) tell(st client.Status) {
	switch st.State {
	case client.Connected:
		x.mu.Lock()
		x.id, x.why = st.Session, ""
		x.mu.Unlock()
	case client.Interrupted, client.Disconnected:
		x.unknown(st.Err)
	case client.AtRisk:
		x.logf("AT_RISK: the server cannot renew leases; the lock is held for another %s", duration(st.ValidFor))
	case client.Safe:
		x.logf("SAFE: the server renews leases again")
	default: // what it means for the lock is told when it is lost
	}
}

// unknown says why the server does not accept the credentials any more, once for each reason. The session goes on if
// they are renewed in time, else its locks are lost.
func (x *execution) unknown(err error) {
	if !errors.Is(err, client.ErrUnauthenticated) {
		return
	}
	why := client.Reason(err)
	x.mu.Lock()
	told := x.why == why
	x.why = why
	x.mu.Unlock()
	if !told {
		x.logf("%s", message(err))
	}
}

// queued returns a function that tells exec's position in the queue when it changes, once in tellPause unless it is 0.
func (x *execution) queued() func(position int) {
	last, at := -1, time.Time{}
	return func(position int) {
		if position == last || position > 0 && time.Since(at) < tellPause {
			return
		}
		last, at = position, time.Now()
		x.logf("QUEUED: %d before this one", position)
	}
}

func (x *execution) logf(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	_ = printLine(x.stderr, "lockctl: "+format, args...) // nobody to tell if stderr is gone
}

func (x *execution) run(ctx context.Context) error {
	path, err := exec.LookPath(x.argv[0])
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return failure{exitNotFound, reasonNotFound, err}
	case err != nil:
		return failure{exitNotRunnable, reasonNotRunnable, err}
	}
	x.signals = make(chan os.Signal, 16)
	notify(x.signals, forwarded...)
	defer signal.Stop(x.signals)
	ls, err := x.obtain(ctx)
	if err != nil {
		return nameHolder(ctx, x.inspect, err)
	}
	granted := time.Now()
	notify(x.signals, syscall.SIGTSTP) // not earlier: a lockctl that only waits is stopped as any program

	// The kernel kills the command when the thread that started it ends: this one must not.
	runtime.LockOSThread()
	c, err := startChild(path, x.argv, append(environment(ls.All()), actorEnv+"="+x.actor))
	if err != nil {
		return errors.Join(failure{exitNotRunnable, reasonNotRunnable, err}, x.release(ls))
	}
	if err = x.guard(ls, c); err != nil {
		x.unknown(x.client.ConnectErr())
	}
	if errors.Is(err, client.ErrLost) && x.most > 0 && ls.Deadline().Sub(granted) > x.most/10*9 {
		err = fmt.Errorf("%w: the time of --max-hold was about to end", client.ErrLost)
	}
	return x.end(ls, c, err)
}

// The variables that the command finds its locks in.
const (
	namesEnv  = "LOCKD_NAMES"
	fencesEnv = "LOCKD_FENCES"
)

// environment is what the command is told of its locks, and of those of the execs around this one. No name has line
// breaks.
func environment(ls []*client.Lock) []string {
	var names, fences []string
	for _, l := range ls {
		names, fences = append(names, l.Name()), append(fences, strconv.FormatUint(l.Fence(), 10))
	}
	return []string{
		"LOCKD_NAME=" + names[0], "LOCKD_FENCE=" + fences[0],
		namesEnv + "=" + strings.Join(append(names, lines(os.Getenv(namesEnv))...), "\n"),
		fencesEnv + "=" + strings.Join(append(fences, lines(os.Getenv(fencesEnv))...), "\n"),
	}
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// refuseNested refuses names that are held around this exec: it would wait for its own end.
func refuseNested(items []client.Item, held string) error {
	for _, i := range items {
		if slices.Contains(lines(held), i.Name) {
			err := errors.New("an exec around this one holds it, so this one would wait for its own end")
			return failure{exitUsage, reasonNested, wrap("exec", []string{i.Name}, err)}
		}
	}
	return nil
}

// obtain waits for the locks, or for a signal. Locks that are granted at the moment of a signal are released when the
// client is closed.
func (x *execution) obtain(ctx context.Context) (ls *client.Locks, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ls, err = x.lockAll(ctx)
	}()
	select {
	case <-done:
		return ls, err
	case sig := <-x.signals:
		cause := endedBy(sig)
		cancel(cause)
		<-done
		return nil, cause
	}
}

// guard watches over the command until it ends, and ends it when one of its locks ends or is about to. Then it returns
// why: first of all what the locks say.
func (x *execution) guard(ls *client.Locks, c *child) error {
	g := newGuard(ls, c, time.Now())
	lost := ls.Lost()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(g.step(time.Now()))
		suspend := false
		select {
		case <-lost:
			lost = nil // the guard knows by now
		case <-timer.C:
		case sig := <-x.signals:
			if sig != syscall.SIGTSTP {
				c.signal(sig.(syscall.Signal))
				continue
			}
			// The command must not work on while nobody watches over its lock.
			if c.stop() == ended {
				return g.why()
			}
			suspend = true
		case e := <-c.events:
			if e == ended {
				return g.why()
			}
			// After the terminal's Ctrl-Z lockctl stops, too. A command that was stopped in another way keeps its lock.
			suspend = c.inForeground()
		}
		if suspend {
			c.suspend(func() { g.step(time.Now()) })
		}
	}
}

// end tidies up after the command and finds the exit code.
func (x *execution) end(ls *client.Locks, c *child, lost error) error {
	status, left := c.cleanUp()
	lost = cmp.Or(ls.Err(), lost)
	released := x.release(ls)
	if left {
		x.logf("LEFT_BEHIND: ended processes that the command left behind")
	}
	switch {
	case lost != nil:
		return failure{exitLost, "", lost}
	case errors.Is(released, client.ErrLost), errors.Is(released, client.ErrNotHeld), errors.Is(released, client.ErrStale):
		return failure{exitLost, "", released}
	case released != nil:
		x.logf("%s", message(released)) // and that is all: the command was guarded to its end
	}
	code := status.ExitStatus()
	if status.Signaled() { // as shells tell it
		code = exitSignal + int(status.Signal())
	}
	if code != 0 {
		return failure{code: code}
	}
	return nil
}

func (x *execution) release(ls *client.Locks) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), releaseTimeout, errLate)
	defer cancel()
	return ls.Unlock(ctx)
}
