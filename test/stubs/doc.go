// Package stubs holds the tests of the stubs in api/gen that other languages use, and of the programs of docs/stubs.md.
// As they are in the page, with the oldest and with the newest runtimes, these use a lock of a real lockd.
//
// The Python programs run in the venvs that scripts/ensure stubs makes, that for Node with the modules that it
// installs; Maven builds the Java one.
package stubs
