// Package cluster is a lock.Store in a Redis Cluster. It has a redisstore.Store for each master, and asks each for the
// names whose slots that master has.
//
// # What it promises
//
// A call for a name goes to the node that has its slot. A node that does not have the slot any more says so and does
// nothing; then the call goes to the node that has it, within the time of one operation. The slots are looked up when a
// node redirects a call or cannot be reached, and now and then. A listener goes on listening when the slot of its name
// moves, and is told that it may have missed something.
//
// # What it does not promise
//
// A fail-over may lose what the old master had not sent to its replica yet, as behind Sentinel. Several names in
// different slots are not taken at one instant but one slot after the other, and all are released if one is refused: no
// request waits while it holds some. While a slot moves, both nodes refuse a call for a name if each has some of its
// keys; the call is repeated until its time is up.
//
// The files: store.go has the nodes, slots.go learns which has what, route.go takes a call to its node, verbs.go,
// several.go, renew.go, views.go and notices.go are the methods of lock.Store.
package cluster
