package limits

import "time"

// What nobody can set, of one session.
const (
	Heartbeats        = 3    // in a session TTL
	LocksPerSecond    = 1000 // exclusive locks, or what costs as much to renew, for each second of its TTL
	Requests          = 1024 // of one batch
	RequestIDs        = 4096 // how far below the greatest id a new one may be
	Asking            = 4    // questions to the store that are under way
	Questions         = 256  // questions that wait
	Pages             = 16   // pages of holds that were not read
	Answers           = 512  // answers that were not read: no further request is read then
	AnswerBytes       = 256 << 10
	UnlocksOfName     = 64          // ends of one watched name that were not read: the next one is merged with the last
	UnlocksOfAllNames = Answers / 2 // of all of them, so that they alone do not keep requests from being read
)

// What nobody can set, of what is said of a client.
const (
	ClientNameBytes = 128
	Labels          = 32
	LabelBytes      = 256
	ActorBytes      = 128
	ByBytes         = 256 // who releases by force
	WhyBytes        = 512 // and why
)

// What nobody can set, of one replica.
const (
	Resumes       = 64      // sessions that are resumed; the others wait, before anything is asked of the store
	LargeResumes  = 16      // of them, those with more holds than VerifyingEach: they take long
	ResumedHolds  = 500_000 // that these name, with those that wait; each takes 400 bytes, whether it exists or not
	Verifying     = 256     // holds of all of them that the store is asked for, so that others keep their speed
	VerifyingEach = 64      // and of one of them
	Freeing       = 256     // names that clients may lock no more, which the store is asked to free
	Moves         = 64      // sessions that came here, while the others are told; of more they are not told
	// Listings are read from the store or from all replicas. One may keep Redis busy for some 25 ms, and nobody else is
	// served meanwhile.
	Listings     = 2
	Lists        = 8 // answers with lists, of one tenant, that are made or were not read yet
	Examinations = 1
	// LooksPerSecond is for how many requests a second the others are asked who is in the way.
	LooksPerSecond = 50
	Looks          = 8 // of these at a time: half of the questions to the others that may be under way
)

// ListingPatience is how long a list waits for others.
const ListingPatience = time.Second
