package topology

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lockd-io/lockd/internal/address"
)

// Server is one Redis, or one Redis Cluster: the only one, or a member of a majority.
type Server struct {
	Kind     string   // Standalone, Sentinel or Cluster
	Master   string   // what the sentinels call it
	Addrs    []string // HOST:PORT of the server, of its sentinels or of nodes of the cluster; or the path of a socket
	Username string
	DB       int
	TLS      bool
}

// Keys are the keys that say where the store is, if it is at an address as At reads it.
func Keys(at string) map[string]string {
	scheme, rest, _ := strings.Cut(at, "://")
	switch scheme {
	case Sentinel:
		master, addrs, _ := strings.Cut(rest, "@")
		return map[string]string{"store.kind": Sentinel, "redis.sentinel.master": master, "redis.sentinel.addrs": addrs}
	case Cluster:
		return map[string]string{"store.kind": Cluster, "redis.cluster.addrs": rest}
	default:
		return map[string]string{"store.kind": Standalone, "redis.addr": at}
	}
}

// MajorityKeys are the keys that say where the store is, if it is a majority of these servers.
func MajorityKeys(members string) map[string]string {
	return map[string]string{"store.kind": Redlock, "redlock.members": members}
}

// Servers are those that keep leases: none for memory, one, or the members of a majority. Its error has the key of each
// wrong address.
func (c Config) Servers() (all []Server, err error) {
	r := c.Redis
	one := r.server(c.Store.Kind)
	switch c.Store.Kind {
	case Memory:
		return nil, nil
	case Sentinel:
		one.Master, one.Addrs = r.Sentinel.Master, r.Sentinel.Addrs
	case Cluster:
		one.Addrs = r.Cluster.Addrs
	case Standalone:
		if one, err = r.At(r.Addr); err != nil || one.Kind != Standalone {
			return nil, fmt.Errorf("redis.addr: %w", cmp.Or(err, errAddress))
		}
	case Redlock:
		for i, at := range c.Redlock.Members {
			member, wrong := r.At(at)
			if wrong != nil {
				err = errors.Join(err, fmt.Errorf("redlock.members: word %d %w", i+1, wrong))
			}
			all = append(all, member)
		}
		return all, err
	}
	return []Server{one}, nil
}

// server is a Server with what r says of all servers.
func (r Redis) server(kind string, addrs ...string) Server {
	return Server{Kind: kind, Addrs: addrs, Username: r.Username, DB: r.DB, TLS: r.TLS.Enabled}
}

// What is wrong with an address. The address is never repeated, as it may contain a secret.
var (
	errAddress  = errors.New("must be HOST:PORT, redis://HOST:PORT/DB, rediss://… for TLS, or unix:///PATH")
	errMaster   = errors.New("must be sentinel://MASTER@HOST:PORT,HOST:PORT,…")
	errPassword = errors.New("must not contain a password: others can read it; use redis.password_file")
	errDatabase = errors.New("is a cluster, which has one database: redis.db must not name another")
	errOptions  = errors.New("must not contain options: each has a key of its own")
	errTwice    = errors.New("names another user or database than redis.username and redis.db")
	errSocket   = errors.New("is a socket of this machine, where no TLS is spoken")
)

// At is the server at an address, with what r says of all servers. An address is HOST:PORT, redis://USER@HOST:PORT/DB,
// rediss:// for TLS, unix:///PATH, sentinel://MASTER@HOST:PORT,HOST:PORT or cluster://HOST:PORT,HOST:PORT.
func (r Redis) At(at string) (Server, error) {
	scheme, rest, isURL := strings.Cut(at, "://")
	switch {
	case isURL && scheme == Sentinel:
		master, addrs, _ := strings.Cut(rest, "@")
		if addrs == "" || !address.IsWord(master) {
			return Server{}, errMaster
		}
		s := r.server(Sentinel, strings.Split(addrs, ",")...)
		s.Master = master
		return s, nil
	case isURL && scheme == Cluster && r.DB != 0:
		return Server{}, errDatabase
	case isURL && scheme == Cluster:
		return r.server(Cluster, strings.Split(rest, ",")...), nil
	case isURL && scheme == "unix" && !address.IsPath(rest):
		return Server{}, errAddress
	case isURL && scheme == "unix" && r.TLS.Enabled:
		return Server{}, errSocket
	case isURL && scheme == "unix":
		return r.server(Standalone, rest), nil
	case isURL:
		return r.atURL(at)
	case strings.Contains(at, "@"):
		return Server{}, errPassword
	case !address.IsServer(at):
		return Server{}, errAddress
	default:
		return r.server(Standalone, at), nil
	}
}

func (r Redis) atURL(at string) (Server, error) {
	u, err := url.Parse(at)
	if err != nil || (u.Scheme != "redis" && u.Scheme != "rediss") || u.Hostname() == "" {
		return Server{}, errAddress
	}
	s := r.server(Standalone, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379")))
	s.Username = cmp.Or(u.User.Username(), r.Username)
	s.DB, err = strconv.Atoi(cmp.Or(strings.Trim(u.Path, "/"), strconv.Itoa(r.DB)))
	s.TLS = s.TLS || u.Scheme == "rediss"
	switch _, hasPassword := u.User.Password(); {
	case hasPassword:
		return Server{}, errPassword
	case u.RawQuery != "" || u.Fragment != "":
		return Server{}, errOptions
	case err != nil || s.DB < 0 || !address.IsServer(s.Addrs[0]):
		return Server{}, errAddress
	case r.Username != "" && r.Username != s.Username, r.DB != 0 && r.DB != s.DB:
		return Server{}, errTwice
	}
	return s, nil
}

// Name says which server this is, to be compared between replicas. It does not say as which user or how it is reached.
func (s Server) Name() string {
	addrs := strings.Join(slices.Sorted(slices.Values(s.Addrs)), ",")
	switch {
	case s.Kind == Sentinel:
		return "sentinel://" + s.Master + "@" + addrs
	case s.Kind == Cluster:
		return "cluster://" + addrs
	case s.DB != 0:
		return fmt.Sprintf("%s/%d", addrs, s.DB)
	default:
		return addrs
	}
}
