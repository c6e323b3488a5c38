// Package archtest holds the tests of the rules that the compiler does not know: which package may reach which
// dependency, that every package says what it promises, that files stay small enough to read, and that comments and
// pages speak of what is there.
//
// golangci-lint checks the imports that a file writes down; these tests ask the go command for everything that a
// package reaches, so a rule cannot be broken through a third package.
//
// It has no code besides its tests.
package archtest
