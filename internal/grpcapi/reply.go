package grpcapi

import (
	"context"
	"runtime"
	"sync"

	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"

	"github.com/lockd-io/lockd/internal/inbound"
)

// reply is the answer of a unary call. ended is called once gRPC has no more of it: it was sent, its call was reset or
// its connection is closed. Until then an answer that its client does not read stays in memory.
type reply struct {
	message any
	ended   func()
}

func newReply(ctx context.Context, message any, ended func()) *reply {
	ended = sync.OnceFunc(ended)
	p, ok := peer.FromContext(ctx)
	if !ok {
		return &reply{message, ended}
	}
	stop := context.AfterFunc(inbound.Closed(p.Addr), ended)
	return &reply{message, func() { stop(); ended() }}
}

// Marshal implements encoding.CodecV2.
func (c frameCodec) Marshal(v any) (mem.BufferSlice, error) {
	a, ok := v.(*reply)
	if !ok {
		return c.Codec.Marshal(v)
	}
	data, err := c.Codec.Marshal(a.message)
	if err != nil || mem.IsBelowBufferPoolingThreshold(data.Len()) { // gRPC would not tell when it is sent
		a.ended()
		return data, err
	}
	defer data.Free()
	bytes := data.Materialize()
	// If a call is reset just when its answer is to be sent, gRPC drops the answer without freeing it.
	runtime.AddCleanup(&bytes, func(ended func()) { ended() }, a.ended)
	return mem.BufferSlice{mem.NewBuffer(&bytes, onFree(a.ended))}, nil
}

// onFree is a pool that tells when a buffer comes back.
type onFree func()

// Get implements mem.BufferPool.
func (onFree) Get(int) *[]byte { return nil }

// Put implements mem.BufferPool.
func (f onFree) Put(*[]byte) { f() }
