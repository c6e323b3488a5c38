// Package examples has whole programs that use the Go SDK, one in each directory, and their tests.
package examples
