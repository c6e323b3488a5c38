// Package settle stands in front of a store and settles what the store could not tell: a call whose outcome is unknown
// is made again, and what it may have left is released in the background.
//
// # What it promises
//
// An acquisition of unknown outcome is made once more. If that is not answered either, the caller is told
// lock.ErrOutcomeUnknown, and whatever was taken is released. The owner may ask again at any time: that cancels the
// release. A grant that is reported as a failure is released, too (lock.ErrNotReplicated, lock.ErrInVain).
//
// A release that was asked for is carried out, also when its first calls fail. The caller is told when the store has
// acknowledged it, or the error after at most three calls; then it goes on without him. A hold that is not there after
// a call of unknown outcome was ended by that call: the caller is told so, with lock.Returned.Assumed. What may have
// been handed to a successor meanwhile is released, unless the successor asks for the name, or repeats its requests. So
// nobody has to repeat a release.
//
// # What it does not promise
//
// An owner that repeats its requests (lock.Owner.Repeats) may do so at another replica, and have there what was granted
// here. So nothing is released for it that it did not ask to be released, and an acquisition cancels a release for
// good. What is left ends with its TTL.
//
// Nothing survives the process, or Close. At most Config.Most releases are known, a tenth of them of one tenant, and
// for an hour after the lease would have ended; one that was granted may last for Config.LongestLease. What is more
// ends with its TTL; lockd_settle_dropped_total counts it.
//
// With Config.Member it releases only what it was asked to release. A majority sets that: it may have granted a name
// without the member whose answer is missing, and it releases without waiting for answers.
//
// # Order
//
// It relies on one promise of the store: when a call about a name is answered, no earlier call about that name from
// this process whose outcome is unknown is carried out any more. So one answer settles a pending release. Nothing has
// to be asked twice, and nothing has to wait until something late is over.
//
// # How a call passes
//
// Without trouble a call passes through, and an acquisition reads one atomic number: whether there are pending
// releases. A pending release (pending.go) is one that one owner of one name wants and the store has not acknowledged.
// A release becomes one when its first call fails; that of an owner that repeats is one from the start, as the owner
// may ask for the name again at any moment. Two releases of an owner are one pending release, which wants what both
// want; if they name different fences, it makes a call for each. The first calls are made for the caller (release.go).
// Then one loop makes them, Config.UnderWay at a time, with growing pauses. An acquisition puts the pending release of
// its owner off and goes behind it. An answer ends the pending release; without one it goes on. What an owner with a
// place may have is released when the place has ended or is given up, as until then the owner may ask again.
package settle
