package renew

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

// Renewer keeps holds, over connections that nothing else uses. It implements the part of lock.Store for renewals and
// probes.
type Renewer struct {
	*script.Caller
	Config

	log   *zap.Logger
	begun time.Time // when it was made
	data  dataset

	mu       sync.Mutex // guards the fields below
	checked  string     // the run id of the server that passed the last check
	warnedOf string     // the run id of the server whose settings were warned of
}

// Config says how a Renewer works.
type Config struct {
	Steady   *pipe.Pipeline     // nothing else uses it
	InSlots  bool               // whether the keys of a call must be in one cluster slot
	DataKey  func() string      // where the id of the data is
	Restarts prometheus.Counter // how often another server answers
	Wait     bool               // whether the server must know WAIT
}

// New makes a Renewer.
func New(cl *script.Caller, c Config, log *zap.Logger) *Renewer {
	return &Renewer{Caller: cl, Config: c, log: log, begun: time.Now()}
}
