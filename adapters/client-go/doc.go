// Package lockdlease has client-go elect leaders by means of lockd, without the API server of Kubernetes.
//
//	lease := lockdlease.New(c, "my-controller", hostname+"_"+uuid)
//	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
//		Lock:          lease,
//		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
//		ReleaseOnCancel: true,
//		Callbacks: leaderelection.LeaderCallbacks{
//			OnStartedLeading: lease.Leading(func(ctx context.Context, term *client.Lock) { work(ctx, term.Fence()) }),
//			OnStoppedLeading: func() { os.Exit(1) },
//		},
//	})
//
// # What it promises
//
// Whoever leads holds the lock with a fixed lease of LeaseDuration, which each renewal prolongs. lockd decides, not the
// clocks of the electors: the record that client-go compares is made of what lockd says at that moment. A renewal is
// refused when the lock is another one's, or was another one's meanwhile, and each term has a greater fence.
//
// A renewal that succeeds keeps others out for nine tenths of LeaseDuration. So no two electors lead at one time if
// RenewDeadline and RetryPeriod together are less than that, as with the defaults of client-go. What Leading starts
// ends by the deadline of the lock itself, whatever the durations are.
//
// An elector that lost its term in another way does not take the lock again before it has stopped, so that what it
// started is not taken for the work of the next term.
//
// # What it does not promise
//
// A process can be stopped between asking whether it leads and acting. Only a resource that is given the fence, and
// refuses smaller ones, is safe from that.
//
// Coordinated elections of client-go are not possible.
package lockdlease
