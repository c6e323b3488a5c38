// Package redisson tests that lockd and Redisson share locks: the programs themselves, at one real Redis, each kind of
// lock in both directions.
//
// The newest Redisson runs in a program of its own, the agent, whose sources and pom.xml are here too. The tests build it
// with Maven when it changed, start it once, and tell it line by line what to do; a test that kills Redisson starts another
// one.
//
// Times that tests promise are those of the documentation. Other processes' use of the machine is taken off the short ones.
package redisson
