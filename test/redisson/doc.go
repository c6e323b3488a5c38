// Package redisson tests that lockd and Redisson share locks: the programs themselves, at one real Redis, each kind of
// lock in both directions; and in short behind Redis Sentinel, on a Redis Cluster, and with RedLock over three masters.
//
// The newest Redisson runs in a program of its own, the agent, whose sources and pom.xml are in java. The tests build
// it with Maven when it changed, start it once, and tell it line by line what to do; a test that kills Redisson starts
// another one. While replicas of lockd, connections and processes fail, the SDKs of other languages take part, by their
// drivers of test/conformance.
package redisson
