// Package grpcapi is lockd's gRPC side: it reads messages, checks their form, calls the broker, and writes what the
// broker answers. It decides nothing about locks.
//
// session.go carries the streams, lock.go and admin.go the unary calls; decode.go and encode.go translate messages;
// status.go has the one table that gives each broker error its code and reason.
package grpcapi
