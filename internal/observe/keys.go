// Package observe holds what the logs and the metrics of all packages share: the names of log fields, the buckets of
// histograms, and counters that exist before they count.
//
// # What it promises
//
// One thing has one name in every log line, and one scale in every histogram.
//
// # What it does not promise
//
// It does not decide what is logged or counted, and when.
package observe

// The keys of log fields. Resume tokens and lease ids have none: they are never logged.
const (
	KeyAnswer      = "answer" // what a request is answered with
	KeyAddr        = "addr"   // of a server
	KeyAdminListen = "admin_listen"
	KeyAnnotation  = "annotation"
	KeyBy          = "by"       // who did something, in their own words
	KeyCause       = "cause"    // why something ended
	KeyClient      = "client"   // the name a client gives itself
	KeyCode        = "code"     // of a unary call
	KeyCount       = "count"    // how many locks
	KeyDigest      = "sha256"   // the beginning of a file's
	KeyConsole     = "console"  // where its pages are
	KeyEnded       = "ended"    // whether a session is
	KeyEndpoint    = "endpoint" // the key of one of lockd's addresses, as admin_listen
	KeyEpoch       = "epoch"    // of a session
	KeyExpires     = "expires"  // when a certificate does
	KeyDeadlock    = "deadlock" // who waits for whom
	KeyFence       = "fence"    // the fence of a hold
	KeyFile        = "file"     // its path
	KeyHolder      = "holder"   // who holds a lock inside a session
	KeyHolders     = "holders"  // who holds a lock
	KeyIssuer      = "issuer"   // of tokens
	KeyKind        = "kind"     // of a lock
	KeyHTTPListen  = "http_listen"
	KeyListen      = "listen"   // the address for clients
	KeyLost        = "lost"     // how many locks
	KeyMember      = "member"   // of a majority of stores
	KeyMethod      = "method"   // of a unary call
	KeyMore        = "more"     // how many of the same were not logged
	KeyName        = "name"     // of a lock
	KeyNames       = "names"    // of several locks
	KeyNode        = "node"     // the address of a Redis among several
	KeyNotTold     = "not_told" // why holders cannot be told something
	KeyOpsListen   = "ops_listen"
	KeyOwner       = "owner"    // as in the store: session, holder and request
	KeyPeer        = "peer"     // the address of a client
	KeyPosition    = "position" // in a queue
	KeyPrefix      = "prefix"   // of the names of other replicas
	KeyReason      = "reason"   // of a loss
	KeyReleased    = "released" // whether locks were released
	KeyReplica     = "replica"
	KeyRequest     = "request" // the verb
	KeyRequestID   = "request_id"
	KeyPolicy      = "maxmemory_policy" // of Redis
	KeyRemedy      = "remedy"           // what to do about it
	KeyRestarted   = "restarted"        // whether another server answers
	KeyRunID       = "run_id"           // of a Redis process
	KeySession     = "session"
	KeySessions    = "sessions" // how many
	KeyStore       = "store"
	KeyTook        = "took"
	KeyVersion     = "version"
	KeyWhy         = "why" // the reason that somebody gave
	KeyWithin      = "within"
)
