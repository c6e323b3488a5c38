package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"google.golang.org/grpc"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Floods that have lockd work and use Redis little or not at all.

func floodOfRefusals(addr string) error {
	return floodOfRequests(addr, 100, func(uint64) *lockdv1.SessionRequest {
		return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Release{Release: &lockdv1.Release{
			Name: "nobody's", Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE,
		}}}
	})
}

func floodOfQueues(addr string) error {
	return floodOfRequests(addr, 20, func(id uint64) *lockdv1.SessionRequest {
		if id%2 == 1 {
			return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Cancel{Cancel: &lockdv1.Cancel{TargetId: id - 1}}}
		}
		return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Acquire{Acquire: &lockdv1.Acquire{
			Name: "wanted", Kind: lockdv1.LockKind_LOCK_KIND_FAIR,
		}}}
	})
}

// floodOfRequests has sessions send requests, 64 in a message, without waiting for answers.
func floodOfRequests(addr string, sessions int, next func(id uint64) *lockdv1.SessionRequest) error {
	return sideOn(addr, sessions, func(conn *grpc.ClientConn, _ int) error {
		for {
			talk(conn, next)
		}
	})
}

// talk is one session, until it ends.
func talk(conn *grpc.ClientConn, next func(id uint64) *lockdv1.SessionRequest) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	stream, err := lockdv1.NewSessionServiceClient(conn).Session(ctx)
	if err != nil {
		return
	}
	err = stream.Send(&lockdv1.SessionRequest{RequestId: 1, Message: &lockdv1.SessionRequest_Open{Open: &lockdv1.Open{
		ClientName: "flood", Features: []lockdv1.Feature{lockdv1.Feature_FEATURE_BATCH},
	}}})
	go func() {
		for m := new(lockdv1.SessionResponse); stream.RecvMsg(m) == nil; {
		}
		stop()
	}()
	for id := uint64(2); err == nil; {
		batch := &lockdv1.RequestBatch{}
		for range 64 {
			m := next(id)
			m.RequestId = id
			batch.Requests = append(batch.Requests, m)
			id++
		}
		err = stream.Send(&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Batch{Batch: batch}})
	}
}

func floodOfSessions(addr string) error {
	return floodOfOpens(addr, 100, func() *lockdv1.Open { return &lockdv1.Open{ClientName: "flood"} })
}

func floodOfStrangers(addr string) error {
	return floodOfOpens(addr, 500, func() *lockdv1.Open {
		return &lockdv1.Open{ClientName: "flood", Resume: &lockdv1.Resume{
			SessionId:   fmt.Sprintf("%08x-0000-4000-8000-%012x", rand.Uint32(), rand.Uint32()),
			ResumeToken: "a guess", Epoch: 2,
		}}
	})
}

// floodOfOpens opens sessions that end at once, if they begin at all.
func floodOfOpens(addr string, streams int, open func() *lockdv1.Open) error {
	return sideOn(addr, streams, func(conn *grpc.ClientConn, _ int) error {
		for {
			stream, err := lockdv1.NewSessionServiceClient(conn).Session(context.Background())
			if err != nil {
				continue
			}
			_ = stream.Send(&lockdv1.SessionRequest{RequestId: 1, Message: &lockdv1.SessionRequest_Open{Open: open()}})
			if _, err = stream.Recv(); err == nil {
				_ = stream.CloseSend() // Recv tells what is wrong
			}
			for err == nil {
				_, err = stream.Recv()
			}
		}
	})
}
