package examine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
)

// Server is a Redis, and how lockd uses it.
type Server struct {
	Node   string // what it is called
	Client *redis.Client
	// ConnectTime and OpTime bound making a connection, and each round trip.
	ConnectTime, OpTime time.Duration
	Prefix              string // of the keys of locks
	Data                string // the key with the id of the data
	InCluster           bool   // it should be a node of a cluster
	BehindSentinel      bool   // it should have replicas that can take its place
	Replicas            int    // how many must acknowledge each grant
}

// The checks. Programs read these words: they are never renamed.
const (
	Reachable    = "REACHABLE"
	Latency      = "LATENCY"
	Clock        = "CLOCK"
	Policy       = "MAXMEMORY_POLICY"
	Memory       = "MEMORY"
	Persistence  = "PERSISTENCE"
	Replication  = "REPLICATION"
	Rights       = "RIGHTS"
	DataKey      = "DATA_KEY"
	ClusterState = "CLUSTER_STATE"
)

// ticks is how many round trips are measured.
const ticks = 5

// Examine looks at the server. The caller has made sure that it can be used.
func (s Server) Examine(ctx context.Context) []lock.Finding {
	r := &report{node: s.Node}
	conn := s.Client.Conn()
	defer func() { _ = conn.Close() }()
	clock, err := s.measure(ctx, conn)
	if cut(err) {
		return []lock.Finding{Away(s.Node, err)}
	}
	v := s.ask(ctx, conn)
	if cut(v.infoErr) {
		return []lock.Finding{Away(s.Node, v.infoErr)}
	}
	r.ok(Reachable, "it answers")
	s.checkClock(r, clock, err)
	s.checkMemory(r, v)
	s.checkPersistence(r, v)
	s.checkReplication(r, v)
	s.checkRights(r, v)
	s.checkKeys(r, v)
	if s.InCluster {
		s.checkCluster(r, v)
	}
	return r.findings
}

// Away is the finding for a server that does not answer, or cannot be used.
func Away(node string, err error) lock.Finding {
	return lock.Finding{
		Severity: lock.SeverityError, Check: Reachable, Node: node, Detail: err.Error(),
		Remedy: "start it, or check its address, the network and the password; nothing else could be looked at",
	}
}

var errSilent = errors.New("the server does not answer in time")

// cut says whether err is an error of the connection, not a reply.
func cut(err error) bool {
	_, replied := errors.AsType[redis.Error](err)
	return err != nil && !replied
}

// clock is what was measured.
type clock struct {
	shortest, longest time.Duration // of the round trips
	ahead             time.Duration // of the server's clock
	unsure            time.Duration // by how much ahead may be wrong
}

// measure connects, and asks for the time. It counts the answer of the shortest round trip, which is the most exact.
func (s Server) measure(ctx context.Context, conn *redis.Conn) (c clock, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.ConnectTime+s.OpTime, errSilent)
	defer cancel()
	if err := conn.Ping(ctx).Err(); cut(err) {
		return c, err
	}
	for i := range ticks {
		begun := time.Now()
		there, e := conn.Time(ctx).Result()
		took := time.Since(begun)
		switch {
		case cut(e) && i > 0:
			return c, nil // it is far away: one measurement must do
		case cut(e):
			return c, e
		case e != nil:
			err = e
		}
		c.longest = max(c.longest, took)
		if i > 0 && took >= c.shortest {
			continue
		}
		c.shortest = took
		if e == nil {
			c.ahead, c.unsure = there.Sub(begun.Add(took/2)), took/2
		}
	}
	return c, err
}

// view is what the server answered.
type view struct {
	info     map[string]string // the fields of INFO
	infoErr  error
	settings map[string]setting
	rights   []string // those that are missing
	rightErr error
	dataType string
	dataTTL  time.Duration
	dataErr  error
	cluster  map[string]string // the fields of CLUSTER INFO
	clustErr error
}

// setting is the answer of CONFIG GET.
type setting struct {
	value string
	err   error
}

var settings = []string{"appendfsync", "min-replicas-to-write", "stop-writes-on-bgsave-error", "save"}

// ask asks for all that the checks look at, in one round trip.
func (s Server) ask(ctx context.Context, conn *redis.Conn) *view {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*s.OpTime, errSilent)
	defer cancel()
	p := conn.Pipeline()
	info := p.Info(ctx)
	var values []*redis.MapStringStringCmd
	for _, name := range settings {
		values = append(values, p.ConfigGet(ctx, name))
	}
	rights := p.Eval(ctx, rightsScript, nil, s.needs()...)
	dataType, dataTTL := p.Type(ctx, s.Data), p.PTTL(ctx, s.Data)
	var state *redis.StringCmd
	if s.InCluster {
		state = p.ClusterInfo(ctx)
	}
	_, _ = p.Exec(ctx) // each command has its own error

	v := &view{info: fields(info.Val()), infoErr: info.Err(), settings: make(map[string]setting)}
	for i, name := range settings {
		v.settings[name] = setting{values[i].Val()[name], values[i].Err()}
	}
	v.rights, v.rightErr = rights.StringSlice()
	v.dataType, v.dataTTL, v.dataErr = dataType.Val(), dataTTL.Val(), errors.Join(dataType.Err(), dataTTL.Err())
	if s.InCluster {
		v.cluster, v.clustErr = fields(state.Val()), state.Err()
	}
	return v
}

func fields(text string) map[string]string {
	found := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			found[name] = value
		}
	}
	return found
}

type report struct {
	node     string
	findings []lock.Finding
}

func (r *report) add(s lock.Severity, check, detail, remedy string) {
	r.findings = append(r.findings, lock.Finding{Severity: s, Check: check, Node: r.node, Detail: detail, Remedy: remedy})
}

func (r *report) ok(check, format string, args ...any) {
	r.add(lock.SeverityOK, check, fmt.Sprintf(format, args...), "")
}

// unseen reports that a check could not be made. right is what the user of Redis lacks for it.
func (r *report) unseen(check string, err error, right string) {
	remedy := ""
	if redis.IsPermissionError(err) {
		remedy = "give lockd's user the right " + right + ", to have it looked at"
	}
	if err == nil {
		err = errors.New("the server does not tell")
	}
	r.add(lock.SeverityInfo, check, "could not be looked at: "+err.Error(), remedy)
}
