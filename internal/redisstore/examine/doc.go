// Package examine looks whether a Redis server is what lockd needs.
//
// # What it promises
//
// It changes nothing. It ends within the bound of a connection and four operations, whatever the server does. What it
// may not look at is told as such, with the right that is missing.
//
// # What it does not promise
//
// What it finds is how things are at the moment. Nothing is refused because of it; what lockd refuses to work with
// is known to package renew, and not looked at here.
//
// # How it goes
//
// A connection is made and asked for its round trip and its clock. One pipeline then asks everything else, so that a
// server far away costs few round trips. The checks only read what it answered.
package examine
