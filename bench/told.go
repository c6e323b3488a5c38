package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// told is a program of another language. It makes the calls itself, so it is no locker like the others: one line asks
// it to measure, and it tells the result with another.
type told struct {
	*process
	in  io.WriteCloser
	out *bufio.Reader
}

// startTold runs such a program, and leaves it some time to compile what it runs.
func startTold(warmUp time.Duration, env []string, name string, args ...string) (*told, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr, cmd.Env = os.Stderr, append(os.Environ(), env...)
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	t := &told{in: in, out: bufio.NewReader(out)}
	var err error
	if t.process, err = launch(cmd, func() {}); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if _, err := t.pairs(warmUp, 64); err != nil {
		t.kill()
		return nil, err
	}
	return t, nil
}

// pairs has callers lock and unlock for a while.
func (t *told) pairs(run time.Duration, callers int) (pairResult, error) {
	var p pairResult
	var took time.Duration
	if _, err := fmt.Fprintln(t.in, callers, run.Milliseconds()); err != nil {
		return p, fmt.Errorf("%s: %w", t.cmd.Path, err)
	}
	if _, err := fmt.Fscanln(t.out, &p.pairs, (*int64)(&took), (*int64)(&p.p50), (*int64)(&p.p99)); err != nil {
		return p, fmt.Errorf("%s: %w", t.cmd.Path, err)
	}
	p.rate = float64(p.pairs) / took.Seconds()
	return p, nil
}

// open is for a peer.
func (t *told) open(env, int) (locker, error) { return toldLocker{t}, nil }

// toldLocker is the program in one run. It lives on after that.
type toldLocker struct{ *told }

func (toldLocker) lock(context.Context, int, string) (unlockFunc, error) {
	return nil, errors.New("its callers are in another process")
}

func (toldLocker) close() {}
