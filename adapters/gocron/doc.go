// Package lockdcron has jobs of gocron run once where several schedulers have them, by means of lockd.
//
// There are two ways. With a Locker each run of a job is done by whoever comes first, so the work is spread. With an
// Elector one scheduler does all of it until it fails, so clocks that differ do no harm.
//
//	locker := lockdcron.NewLocker(c, "cron/", 500*time.Millisecond)
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
//	elector := lockdcron.NewElector(election.New(c, "cron"), election.Candidate{ID: hostname})
//	defer elector.Close(ctx)
//	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
// # What it promises
//
// No two schedulers run a job for which they hold the lock, or lead, at one time. With a Locker a run is not repeated
// by a scheduler whose clock is behind by less than the splay. While lockd cannot be reached no run begins, except
// those of a leader whose term still lasts.
//
// # What it does not promise
//
// A run is not made up for: if whoever took it dies, the next run is the next. A job is not stopped when its lock is
// lost; it has to ask, and to give the fence to what it changes.
package lockdcron
