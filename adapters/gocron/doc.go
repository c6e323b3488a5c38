// Package lockdcron has jobs of gocron run once where several schedulers have them, by means of lockd.
//
// There are two ways. With a Locker the scheduler that comes first does a run of a job, so the work is spread. With an
// Elector one scheduler does all runs until it fails, so clocks that differ do no harm.
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
// No two schedulers run a job at the same time while they hold its lock, or lead. With a Locker a run is not repeated
// by a scheduler whose clock is behind by less than the splay. While lockd cannot be reached no run begins, except
// those of a leader whose term still lasts.
//
// # What it does not promise
//
// A run is not made up for: if the scheduler that took it dies, the job runs next at its next time. A job is not
// stopped when its lock is lost: it has to ask, and to give the fence to what it changes.
package lockdcron
