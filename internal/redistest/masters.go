package redistest

import "testing"

// newMaster is a key that tells lockd that a master is new, and was not emptied.
const newMaster, isNew = "lockd:member", "new"

// StartMasters runs n servers that know nothing of each other and are marked as new. See Start.
func StartMasters(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	servers := startServers(t, n, args...)
	for _, s := range servers {
		if err := s.Client().Set(t.Context(), newMaster, isNew, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return servers
}

func startServers(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	servers := make([]*Server, n)
	for i := range servers {
		servers[i] = Start(t, args...)
	}
	return servers
}

// Addrs are the addresses of servers.
func Addrs(servers []*Server) []string {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.Addr
	}
	return addrs
}
