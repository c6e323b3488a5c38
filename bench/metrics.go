package main

import (
	"bufio"
	"cmp"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// metrics are the series that a lockd shows to Prometheus, by name and labels.
type metrics map[string]float64

func metricsOf(lockd *process) (metrics, error) {
	c := http.Client{Timeout: time.Minute} // a lockd that holds very much may be slow
	resp, err := c.Get("http://" + lockd.ops + "/metrics")
	if err != nil {
		return nil, fmt.Errorf("lockd's metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	m := metrics{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if v, err := strconv.ParseFloat(lines.Text()[at+1:], 64); err == nil && lines.Text()[0] != '#' {
			m[lines.Text()[:at]] = v
		}
	}
	return m, lines.Err()
}

// sum is by how much all series of a name have grown since an earlier reading.
func (m metrics) sum(before metrics, name string) float64 {
	var total float64
	for series, v := range m {
		if n, _, _ := strings.Cut(series, "{"); n == name {
			total += v - before[series]
		}
	}
	return total
}

// bucket is a bucket of a histogram: how many values were not above a limit since an earlier reading.
type bucket struct{ limit, count float64 }

func (m metrics) buckets(before metrics, name string) []bucket {
	var all []bucket
	for series, v := range m {
		rest, ok := strings.CutPrefix(series, name+`_bucket{le="`)
		if limit, err := strconv.ParseFloat(strings.TrimSuffix(rest, `"}`), 64); ok && err == nil {
			all = append(all, bucket{limit, v - before[series]})
		}
	}
	slices.SortFunc(all, func(a, b bucket) int { return cmp.Compare(a.limit, b.limit) })
	return all
}

// empty says that no values came.
func empty(all []bucket) bool { return len(all) == 0 || all[len(all)-1].count == 0 }

// above is how many values were above a limit of a bucket.
func above(all []bucket, limit float64) float64 {
	for _, b := range all {
		if b.limit == limit {
			return all[len(all)-1].count - b.count
		}
	}
	return math.NaN()
}

// most is the limit of the bucket with the greatest value.
func most(all []bucket) float64 {
	for _, b := range all {
		if b.count == all[len(all)-1].count {
			return b.limit
		}
	}
	return math.Inf(1)
}

// least is the limit that is below the smallest value.
func least(all []bucket) float64 {
	limit := 0.0
	for _, b := range all {
		if b.count > 0 {
			break
		}
		limit = b.limit
	}
	return limit
}

// reading is what is known of the servers at a time.
type reading struct {
	at         time.Time
	cpu        usage
	rss, redis int // bytes in memory: of lockd, of Redis
}

func (e env) read() (r reading, err error) {
	r.at = time.Now()
	if r.cpu, err = e.usage(self); err != nil {
		return r, err
	}
	if r.rss, err = rssOf(e.lockd[0].pid()); err != nil {
		return r, err
	}
	r.redis, err = rssOf(e.redis.pid())
	return r, err
}

// cores is how many cores each process has kept busy since an earlier reading.
func (r reading) cores(before reading) (redis, lockd, client string) {
	took := r.at.Sub(before.at)
	of := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()/took.Seconds()) }
	u := r.cpu.since(before.cpu, 1)
	return of(u.redis), of(u.lockd), of(u.client)
}

// rssOf is how much memory a process has resident.
func rssOf(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	kib, err := strconv.Atoi(strings.TrimSuffix(field(string(b), "VmRSS:"), " kB"))
	return kib << 10, err
}

func mib(bytes int) string { return whole(float64(bytes)/(1<<20)) + " MiB" }

// served counts the allocations in lockd, too, while measure runs.
func (e env) served(measure func() (pairResult, error)) func() (pairResult, error) {
	return func() (pairResult, error) {
		before, err := metricsOf(e.lockd[0])
		if err != nil {
			return pairResult{}, err
		}
		r, err := measure()
		if err != nil {
			return r, err
		}
		after, err := metricsOf(e.lockd[0])
		r.served = after.sum(before, "go_memstats_mallocs_total") / float64(max(r.pairs, 1))
		return r, err
	}
}
