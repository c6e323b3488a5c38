package limits

import "time"

// Bounds of one session that nobody can set.
const (
	Heartbeats        = 3    // in a session TTL
	LocksPerSecond    = 1000 // exclusive locks, or what costs as much to renew, for each second of its TTL
	Requests          = 1024 // of one batch
	RequestIDs        = 4096 // how far below the greatest id a new one may be
	Asking            = 4    // questions to the store that are under way
	Questions         = 256  // questions that wait
	Pages             = 16   // pages of holds that were not read
	Answers           = 512  // unread answers: with so many no further request is read
	AnswerBytes       = 256 << 10
	UnlocksOfName     = 64          // unread ends of one watched name: the next one is merged with the last
	UnlocksOfAllNames = Answers / 2 // of all watched names, so that they alone do not stop the reading of requests
)

// Bounds of texts about clients that nobody can set.
const (
	ClientNameBytes = 128
	Labels          = 32
	LabelBytes      = 256
	ActorBytes      = 128
	ByBytes         = 256 // who releases by force
	WhyBytes        = 512 // and why
)

// Bounds of one replica that nobody can set.
const (
	Resumes       = 64      // sessions that are being resumed; others wait before they ask the store
	LargeResumes  = 16      // of them, those with more holds than VerifyingEach: they take long
	ResumedHolds  = 500_000 // that LargeResumes name, also while they wait; each takes 400 bytes, even if it is gone
	Verifying     = 256     // holds that the store is asked for at a time, so that others keep their speed
	VerifyingEach = 64      // of them, those of one session
	Freeing       = 256     // names that clients may lock no more, which the store is asked to free
	Moves         = 64      // sessions that came here, of which the others are being told; of more they are not told
	// Listings are lists that are being read from the store or from all replicas. One may keep Redis busy for some 25 ms,
	// in which Redis serves nobody else.
	Listings     = 2
	Lists        = 8 // answers with lists for one tenant that are being made or read
	Examinations = 1
	// LooksPerSecond is how often in a second the store and the other replicas are asked who is in a waiter's way.
	LooksPerSecond = 50
	Looks          = 8 // of these at a time: half of the questions to the others that may be under way
)

// ListingPatience is how long a list waits for others.
const ListingPatience = time.Second
