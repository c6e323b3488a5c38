// Package settle wraps a store and deals with calls of unknown outcome: it makes them again, and releases in the
// background what they may have left.
//
// # What it promises
//
// An acquisition of unknown outcome is made once more. If that is not answered either, the caller is told
// lock.ErrOutcomeUnknown, and whatever was taken is released. The owner may ask again at any time: that cancels the
// release. A grant that is reported as a failure is released, too (lock.ErrNotReplicated, lock.ErrInVain).
//
// A release that was asked for is carried out, even if its first calls fail. The caller is told when the store has
// acknowledged it, or the error after at most three calls; then it goes on in the background. A hold that is not there
// after a call of unknown outcome was ended by that call: the caller is told so, with lock.Returned.Assumed. If the
// name may have been handed to a successor meanwhile, the successor's hold is released, unless it asks for the name, or
// repeats its requests. So nobody has to repeat a release.
//
// # What it does not promise
//
// An owner that repeats its requests (lock.Owner.Repeats) may do so at another replica, and be told there of a grant
// that was made here. So of such an owner only what it asked to release is released, and an acquisition cancels its
// pending release for good. What is left ends with its TTL.
//
// Nothing survives the process, or Close. At most Config.Most releases are known, a tenth of them of one tenant, and
// for an hour after the lease would have ended. A release that was asked for does not say when that is:
// Config.LongestLease is assumed. Releases beyond these bounds are given up, and their holds end with their TTL;
// lockd_settle_dropped_total counts them.
//
// With Config.Member it releases only what it was asked to release. A majority sets that for its members: it may have
// granted a name without the member whose answer is missing, and it releases without waiting for answers.
//
// # Order
//
// It relies on one promise of the store: when a call about a name is answered, no earlier call about that name from
// this process whose outcome is unknown is carried out any more. So one answer settles a pending release: it is not
// asked for twice, and nothing waits until a late call is over.
//
// # How a call passes
//
// Without trouble a call passes through, and an acquisition reads one atomic number: whether there are pending
// releases. A pending release (pending.go) is one of a name by an owner that the store has not acknowledged. A release
// becomes one when its first call fails; that of an owner that repeats is one from the start, because the owner may ask
// for the name again at any moment. Two releases of an owner become one pending release, which wants what both want; if
// they name different fences, it makes a call for each. The first calls are made for the caller (release.go), later
// ones by one loop, Config.UnderWay at a time, with growing pauses. An acquisition puts off the pending release of its
// owner and is carried out behind it. If the acquisition is answered, the pending release is over; if not, it goes on.
// What an owner with a place may have is released when the place has ended or is given up, because until then the owner
// may ask again.
package settle
