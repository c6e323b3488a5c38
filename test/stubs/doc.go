// Package stubs holds the tests of the stubs in api/gen that other languages use: a small client in each, with the
// oldest and with the newest runtimes that the stubs allow, takes a lock from a real lockd and gives it back.
//
// The Python clients run in the venvs that scripts/ensure stubs makes; Maven builds the Java ones.
package stubs
