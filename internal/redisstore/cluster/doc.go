// Package cluster is a lock.Store in a Redis Cluster: one redisstore.Store for each of its masters, which is asked for
// the names whose slots it has.
//
// # What it promises
//
// A name is asked for where its slot is. A node that does not have the slot any more says so and does nothing; then the
// call goes to the node that has it, within the time of one operation. Which node has which slots is looked up when a
// node says so or cannot be reached, and now and then. Who listens to a name goes on listening when its slot moves, and
// is told that something may have been missed.
//
// # What it does not promise
//
// A fail-over may lose what the old master had not sent to its replica yet, as behind Sentinel. Several names in
// different slots are not taken at one instant but one slot after the other, and all are released if one is refused:
// nothing waits while it holds some. While a slot moves, a call for a name of which some keys are here and some there
// is refused by both nodes; it is repeated until its time is up.
//
// The files: store.go has the nodes, slots.go learns which has what, route.go takes a call to its node, verbs.go,
// several.go, renew.go, views.go and notices.go are the methods of lock.Store.
package cluster
