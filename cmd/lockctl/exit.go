package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"google.golang.org/grpc/status"

	"github.com/lockd-io/lockd/client"
)

// The exit codes; those above 3 are those of sysexits.h.
const (
	exitFailed      = 1
	exitDoubtful    = 2 // doctor: the worst finding is a warning
	exitWrong       = 3 // doctor: the worst finding is an error
	exitUsage       = 64
	exitUnavailable = 69
	exitLost        = 70
	exitNotObtained = 75
	exitDenied      = 77
	exitNotRunnable = 126 // as shells do
	exitNotFound    = 127
	exitSignal      = 128
)

// The reasons that lockctl gives itself.
const (
	reasonUsage       = "USAGE"
	reasonName        = "INVALID_NAME" // the server gives it, too
	reasonInterrupted = "INTERRUPTED"
	reasonNested      = "NESTED"
	reasonUnknownName = "UNKNOWN_NAME"
	reasonNotRunnable = "COMMAND_NOT_RUNNABLE" // a command of exec
	reasonNotFound    = "COMMAND_NOT_FOUND"
)

// failure ends lockctl with a code, and in silence if err is nil.
type failure struct {
	code   int
	reason string // empty if the error has one of its own
	err    error
}

func (e failure) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e failure) Unwrap() error { return e.err }

func usage(err error) error { return failure{exitUsage, reasonUsage, err} }

func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

// endedBy is the error of a lockctl that a signal asked to end.
func endedBy(sig os.Signal) error {
	code := exitSignal + int(sig.(syscall.Signal))
	return failure{code, reasonInterrupted, errors.New("ended by signal: " + sig.String())}
}

// codes gives each error its exit code. The first row that matches counts: a lost lock is lost whatever the cause, and
// a wait that ended without a connection is about the server, not the lock.
var codes = []struct {
	err  error
	code int
}{
	{client.ErrLost, exitLost},
	{client.ErrOutcomeUnknown, exitUnavailable},
	{client.ErrUnavailable, exitUnavailable},
	{client.ErrDraining, exitUnavailable},
	{client.ErrUnsupported, exitUnavailable},
	{client.ErrHeld, exitNotObtained},
	{client.ErrTimedOut, exitNotObtained},
	{client.ErrDeadlock, exitNotObtained},
	{client.ErrQuota, exitNotObtained},
	{client.ErrStoreFull, exitNotObtained},
	{client.ErrInvalid, exitUsage},
	{client.ErrDenied, exitDenied},
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[failure](err); ok {
		return e.code
	}
	for _, row := range codes {
		if errors.Is(err, row.err) {
			return row.code
		}
	}
	return exitFailed
}

// reason is the machine-readable reason of an error, empty if there is none. One that says which value is wrong comes
// before USAGE.
func reason(err error) string {
	e, _ := errors.AsType[failure](err)
	if e.reason != "" && e.reason != reasonUsage {
		return e.reason
	}
	return cmp.Or(client.Reason(err), e.reason)
}

// message is what people are told of an error: the reason first, if there is one. It is one line.
func message(err error) string {
	if err == nil || err.Error() == "" {
		return ""
	}
	if reason := reason(err); reason != "" {
		return reason + ": " + unreasoned(err)
	}
	return unreasoned(err)
}

// statused is an error that came from a server.
type statused interface {
	error
	GRPCStatus() *status.Status
}

// unreasoned is the text of an error without its reason, which is told separately. It is one line.
func unreasoned(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[statused](err); ok { // only its own text: a name may read like a reason
		text = strings.Replace(text, e.Error(), strings.TrimSuffix(e.Error(), " ("+reason(err)+")"), 1)
	}
	return strings.ReplaceAll(text, "\n", "; ") + hint(err) // errors.Join puts each on a line of its own
}

// hint says how to find out more about an error. It follows the error's text.
func hint(err error) string {
	switch {
	case errors.Is(err, client.ErrForbidden):
		return "; lockctl whoami shows what it may"
	case client.Reason(err) == "NO_CREDENTIALS":
		return "; show a token (--token-file) or a certificate (--cert, --key)"
	}
	return ""
}

// errorView is how an error is told with -o json. Its keys are part of what lockctl promises.
type errorView struct {
	Reason string `json:"reason"` // empty if there is none
	Error  string `json:"error"`
	Code   int    `json:"exit_code"`
}

// printError prints an error, unless there is nothing to say: the command of exec failed, or somebody interrupted
// lockctl and nothing was left behind.
func printError(w io.Writer, err error, format string) {
	text := message(err)
	interrupted := reason(err) == reasonInterrupted && !errors.Is(err, client.ErrOutcomeUnknown)
	switch {
	case text == "":
	case format == outputJSON:
		_ = printJSON(w, errorView{Reason: reason(err), Error: unreasoned(err), Code: exitCode(err)})
	case !interrupted:
		_ = printLine(w, "lockctl: %s", text)
	}
}

// interruptible is a context that ends, with endedBy as its cause, when lockctl is asked to end.
func interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case sig := <-signals:
			cancel(endedBy(sig))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// notify is signal.Notify without the signals that lockctl was started to ignore, as by nohup.
func notify(c chan<- os.Signal, signals ...syscall.Signal) {
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
}
