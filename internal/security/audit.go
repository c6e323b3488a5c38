package security

import "time"

// Event is one line of the audit. Texts of clients are escaped where it is written.
type Event struct {
	Time     time.Time `json:"time"`
	What     string    `json:"event"` // one of the constants below
	Client   string    `json:"client,omitempty"`
	By       string    `json:"credential,omitempty"`
	Peer     string    `json:"peer,omitempty"`
	Verb     string    `json:"verb,omitempty"` // the message or the method
	Name     string    `json:"name,omitempty"`
	Fence    uint64    `json:"fence,omitempty"`
	Result   string    `json:"result,omitempty"`  // OK, or the reason of an error
	Request  uint64    `json:"request,omitempty"` // its id, of a session's
	Session  string    `json:"session,omitempty"`
	Detail   string    `json:"detail,omitempty"`
	Missed   uint64    `json:"missed,omitempty"` // how many lines before this one were not written
	Identity Identity  `json:"-"`                // of whom; fills Client and By
}

// What is written to the audit.
const (
	EventDenied          = "denied"
	EventUnauthenticated = "unauthenticated"
	EventForced          = "forced"
	EventLimitChanged    = "limit_changed"
	EventDrained         = "drained"
	EventFileApplied     = "file_applied"
	EventFileRefused     = "file_refused"
)

// Audit writes a line. It never blocks: what there is no room for is counted and not written.
func (g *Guard) Audit(e Event) {}
