package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"
	"unicode"
)

// profiledRun is how long a peer is measured whose CPU time is profiled.
const profiledRun = 10 * time.Second

// profiled measures with lockd, and writes CPU profiles of that time: lockd's, and that of this process.
func (e env) profiled(dir, name string, measure func() (pairResult, error)) (pairResult, error) {
	path := filepath.Join(dir, strings.Map(inFileName, name))
	own, err := os.Create(path + ".client.pprof")
	if err != nil {
		return pairResult{}, err
	}
	if err := pprof.StartCPUProfile(own); err != nil {
		return pairResult{}, err
	}
	fetched := make(chan error, 1)
	go func() { fetched <- fetchProfile(e.lockd[0], path+".lockd.pprof", profiledRun-time.Second) }()
	r, err := measure()
	pprof.StopCPUProfile()
	return r, errors.Join(err, <-fetched, own.Close())
}

func inFileName(r rune) rune {
	if unicode.IsLetter(r) || unicode.IsDigit(r) {
		return r
	}
	return '-'
}

// fetchProfile has a lockd profile itself for some seconds.
func fetchProfile(lockd *process, path string, d time.Duration) error {
	c := http.Client{Timeout: d + profiledRun}
	resp, err := c.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", lockd.ops, int(d.Seconds())))
	if err != nil {
		return fmt.Errorf("lockd's profile: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("lockd's profile: %s", resp.Status)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}
