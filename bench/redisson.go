package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// redissonDir has the program Pairs and says which Redisson it uses.
const redissonDir = "../test/redisson"

// redissonName is that of the peer.
const redissonName = "Redisson"

// redissonWarmUp is how long a JVM that has just started is left to compile what it runs.
const redissonWarmUp = 4 * time.Second

// redisson is a JVM with a Redisson client. It makes the calls itself, so it is no locker like the others: what it
// measures is asked for with a line, and told with another.
type redisson struct {
	*process
	in  io.WriteCloser
	out *bufio.Reader
}

// startRedisson returns nil and why if there is no Java or no Maven.
func startRedisson(ctx context.Context, redis *process) (r *redisson, missing string, err error) {
	for _, program := range []string{"java", "mvn"} {
		if path, _ := exec.LookPath(program); path == "" {
			return nil, program + " is not in PATH", nil
		}
	}
	build := exec.CommandContext(ctx, "mvn", "--quiet", "--batch-mode", "compile")
	build.Dir = redissonDir
	if out, err := build.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("mvn compile: %w\n%s", err, out)
	}
	target := filepath.Join(redissonDir, "target")
	cmd := exec.Command("java", "-cp", filepath.Join(target, "classes")+":"+filepath.Join(target, "lib", "*"),
		"io.lockd.redisson.Pairs", "redis://"+redis.addr)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, "", err
	}
	r = &redisson{in: in, out: bufio.NewReader(out)}
	if r.process, err = launch(cmd, func() {}); err != nil {
		return nil, "", fmt.Errorf("start java: %w", err)
	}
	if _, err := r.pairs(redissonWarmUp, 64); err != nil {
		r.kill()
		return nil, "", err
	}
	return r, "", nil
}

// peer is Redisson as it is compared. If it is not there its name says why.
func (r *redisson) peer(missing string) peer {
	if r == nil {
		return peer{name: redissonName + ": " + missing, kind: java}
	}
	open := func(env, int) (locker, error) {
		return redissonLocker{r}, nil
	}
	return peer{redissonName, java, 4, open}
}

// pairs has callers lock and unlock for a while.
func (r *redisson) pairs(run time.Duration, callers int) (pairResult, error) {
	var p pairResult
	var took time.Duration
	if _, err := fmt.Fprintln(r.in, callers, run.Milliseconds()); err != nil {
		return p, fmt.Errorf("redisson: %w", err)
	}
	if _, err := fmt.Fscanln(r.out, &p.pairs, (*int64)(&took), (*int64)(&p.p50), (*int64)(&p.p99)); err != nil {
		return p, fmt.Errorf("redisson: %w", err)
	}
	p.rate = float64(p.pairs) / took.Seconds()
	return p, nil
}

// redissonLocker is the peer in one run. It lives on after that.
type redissonLocker struct{ *redisson }

func (redissonLocker) lock(context.Context, int, string) (unlockFunc, error) {
	return nil, errors.New("redisson: its callers are in another process")
}

func (redissonLocker) close() {}
