package memstore

import (
	"context"

	"github.com/lockd-io/lockd/internal/lock"
)

var _ lock.Examiner = (*Store)(nil)

// Examine implements lock.Examiner.
func (s *Store) Examine(context.Context) []lock.Finding {
	return []lock.Finding{{
		Severity: lock.SeverityWarning, Check: "MEMORY_STORE", Node: "memory",
		Detail: "leases live in the memory of one process: it must be the only replica, and its end frees every lock",
		Remedy: "use Redis, as by --redis HOST:PORT, for what must not be lost",
	}}
}
