// Package faultrun makes clients use locks while everything fails, on each topology of Redis, with two replicas of
// lockd. What the clients saw is checked.
//
// A run has a seed, which chooses what fails and what the clients do. The same seed gives the same choices, not the
// same times. Flags: -seed, and -length for longer runs.
//
// # What is checked
//
//   - A name never has two valid holders. A hold is valid for its holder until its release is begun, or until the
//     holder's own clock says that it is over.
//   - Fences strictly rise.
//   - When nothing fails any more, all who wait are served within a bound.
//   - When all clients have left, Redis and lockd have forgotten them.
//   - The history can be that of correct locks: see package history.
//
// # What is excused
//
// Some faults make a store forget holds: a fail-over, or Redis without its data. Then two may hold a name for a while,
// as docs/topologies.md says. Such a run tells for how many holds that was so. It fails if there are two holders at any
// other time. Majorities forget nothing.
//
// # Who checks the checker
//
// Locks with planted bugs are used by the same clients, and the same checks must find each.
package faultrun
