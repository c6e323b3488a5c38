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
// The leader holds the lock with a fixed lease of LeaseDuration, which each renewal prolongs. lockd decides, not the
// clocks of the electors: the record that client-go compares is made of lockd's present answer. A renewal is refused
// when another elector has the lock, or had it meanwhile, and each term has a greater fence.
//
// A renewal that succeeds keeps others out for nine tenths of LeaseDuration. So no two electors lead at the same time
// if RenewDeadline and RetryPeriod together are less than that, as with the defaults of client-go. The context that
// Leading gives to the work ends by the lock's own deadline, whatever the durations are.
//
// An elector that lost its term in another way does not take the lock again before it has stopped: else the work of the
// lost term would go on in the next one.
//
// # What it does not promise
//
// A process can be stopped after it asked whether it leads, and act late. Only a resource that is given the fence, and
// refuses smaller fences than it has seen, is safe from that.
//
// Coordinated elections of client-go are not possible.
package lockdlease
