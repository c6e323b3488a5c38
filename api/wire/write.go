package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// A message inside of another one begins with its length, which is not known before it is written. begin leaves a byte
// for it, end fills it in and makes room if it needs more.
func begin(b []byte, field protowire.Number) (more []byte, start int) {
	b = append(protowire.AppendTag(b, field, protowire.BytesType), 0)
	return b, len(b)
}

func end(b []byte, start int) []byte {
	size := uint64(len(b) - start)
	more := protowire.SizeVarint(size) - 1
	if more > 0 {
		b = append(b, make([]byte, more)...)
		copy(b[start+more:], b[start:])
	}
	protowire.AppendVarint(b[:start-1], size)
	return b
}

func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendText(b []byte, field protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func appendKind(b []byte, field protowire.Number, k lockdv1.LockKind) []byte {
	return appendNumber(b, field, uint64(int64(k))) //nolint:gosec // as package proto does
}

func appendDuration(b []byte, field protowire.Number, d *durationpb.Duration) []byte {
	if d == nil {
		return b
	}
	b, start := begin(b, field)
	b = appendNumber(b, 1, uint64(d.GetSeconds()))      //nolint:gosec // as package proto does
	b = appendNumber(b, 2, uint64(int64(d.GetNanos()))) //nolint:gosec // as package proto does
	return end(b, start)
}

func valid(texts ...string) bool {
	for _, t := range texts {
		if !utf8.ValidString(t) {
			return false
		}
	}
	return true
}

// fixed is at least as much as the fields without texts take.
const fixed = 96

// maxVarint is how many bytes a number takes at most.
const maxVarint = 10

// Size is how many bytes a request takes on the wire, or somewhat more.
func Size(m *lockdv1.SessionRequest) int {
	switch r := m.GetMessage().(type) {
	case *lockdv1.SessionRequest_Acquire:
		if len(r.Acquire.GetNames())+len(r.Acquire.GetItems()) == 0 && r.Acquire.GetWaited() == nil {
			return sizeOfRequest(m)
		}
	case *lockdv1.SessionRequest_Release:
		return sizeOfRequest(m)
	}
	return proto.Size(m)
}

func sizeOfRequest(m *lockdv1.SessionRequest) int {
	switch r := m.GetMessage().(type) {
	case *lockdv1.SessionRequest_Acquire:
		return fixed + len(r.Acquire.GetName()) + len(r.Acquire.GetHolder()) + len(r.Acquire.GetAnnotation()) +
			len(r.Acquire.GetActor()) + len(r.Acquire.GetTraceparent()) + len(r.Acquire.GetInsteadOf())*(1+maxVarint)
	case *lockdv1.SessionRequest_Release:
		return fixed + len(r.Release.GetName()) + len(r.Release.GetHolder())
	case *lockdv1.SessionRequest_Batch:
		n := fixed
		for _, m := range r.Batch.GetRequests() {
			n += sizeOfRequest(m)
		}
		return n
	}
	return fixed
}

// appendRequest writes a request, or a batch. It does not write other single ones.
func appendRequest(b []byte, m *lockdv1.SessionRequest) ([]byte, bool) {
	batch, ok := m.GetMessage().(*lockdv1.SessionRequest_Batch)
	if !ok {
		return appendOneRequest(b, m)
	}
	b, start := begin(appendNumber(b, 1, m.GetRequestId()), 11)
	for _, inner := range batch.Batch.GetRequests() {
		var at int
		b, at = begin(b, 1)
		if b, ok = appendOneRequest(b, inner); !ok {
			var err error
			if b, err = (proto.MarshalOptions{}).MarshalAppend(b[:at], inner); err != nil {
				return b, false
			}
		}
		b = end(b, at)
	}
	return end(b, start), true
}

func appendOneRequest(b []byte, m *lockdv1.SessionRequest) ([]byte, bool) {
	b = appendNumber(b, 1, m.GetRequestId())
	switch r := m.GetMessage().(type) {
	case *lockdv1.SessionRequest_Acquire:
		return appendAcquire(b, r.Acquire)
	case *lockdv1.SessionRequest_Release:
		return appendRelease(b, r.Release)
	}
	return b, false
}

func appendAcquire(b []byte, m *lockdv1.Acquire) ([]byte, bool) {
	if m == nil || len(m.GetNames())+len(m.GetItems()) > 0 || m.GetWaited() != nil ||
		!valid(m.GetName(), m.GetHolder(), m.GetAnnotation(), m.GetActor(), m.GetTraceparent()) {
		return b, false
	}
	b, start := begin(b, 4)
	b = appendText(b, 1, m.GetName())
	b = appendKind(b, 3, m.GetKind())
	b = appendText(b, 4, m.GetHolder())
	b = appendNumber(b, 5, uint64(m.GetPermits()))
	b = appendDuration(b, 6, m.GetWait())
	b = appendDuration(b, 7, m.GetLease())
	b = appendText(b, 8, m.GetAnnotation())
	b = appendNumber(b, 9, uint64(m.GetLimit()))
	for _, id := range m.GetInsteadOf() {
		b = protowire.AppendVarint(protowire.AppendTag(b, 11, protowire.VarintType), id)
	}
	b = appendText(b, 12, m.GetActor())
	b = appendText(b, 13, m.GetTraceparent())
	return end(b, start), true
}

func appendRelease(b []byte, m *lockdv1.Release) ([]byte, bool) {
	if m == nil || !valid(m.GetName(), m.GetHolder()) {
		return b, false
	}
	b, start := begin(b, 6)
	b = appendText(b, 1, m.GetName())
	b = appendKind(b, 2, m.GetKind())
	b = appendText(b, 3, m.GetHolder())
	b = appendNumber(b, 4, m.GetFence())
	b = appendNumber(b, 5, uint64(m.GetKeep()))
	return end(b, start), true
}

func sizeOfResponse(m *lockdv1.SessionResponse) int {
	n := fixed
	switch r := m.GetMessage().(type) {
	case *lockdv1.SessionResponse_Granted:
		for _, h := range r.Granted.GetHolds() {
			n += len(h.GetName()) + len(h.GetHolder())
		}
	case *lockdv1.SessionResponse_Batch:
		for _, m := range r.Batch.GetResponses() {
			n += sizeOfResponse(m)
		}
	}
	return n
}

// appendResponse writes an answer, or a batch. It does not write other single ones.
func appendResponse(b []byte, m *lockdv1.SessionResponse) ([]byte, bool) {
	batch, ok := m.GetMessage().(*lockdv1.SessionResponse_Batch)
	if !ok {
		return appendOneResponse(b, m)
	}
	b, start := begin(appendNumber(b, 1, m.GetRequestId()), 22)
	for _, inner := range batch.Batch.GetResponses() {
		var at int
		b, at = begin(b, 1)
		if b, ok = appendOneResponse(b, inner); !ok {
			var err error
			if b, err = (proto.MarshalOptions{}).MarshalAppend(b[:at], inner); err != nil {
				return b, false
			}
		}
		b = end(b, at)
	}
	return end(b, start), true
}

func appendOneResponse(b []byte, m *lockdv1.SessionResponse) ([]byte, bool) {
	b = appendNumber(b, 1, m.GetRequestId())
	switch r := m.GetMessage().(type) {
	case *lockdv1.SessionResponse_Granted:
		return appendGranted(b, r.Granted)
	case *lockdv1.SessionResponse_Released:
		if r.Released == nil || r.Released.GetValidity() != nil {
			return b, false
		}
		b, start := begin(b, 7)
		return end(appendNumber(b, 1, uint64(r.Released.GetRemaining())), start), true
	}
	return b, false
}

func appendGranted(b []byte, m *lockdv1.Granted) ([]byte, bool) {
	if m == nil || len(m.GetHolds()) != 1 {
		return b, false
	}
	h := m.GetHolds()[0]
	if !valid(h.GetName(), h.GetHolder()) {
		return b, false
	}
	b, start := begin(b, 4)
	b, inner := begin(b, 1)
	b = appendText(b, 1, h.GetName())
	b = appendKind(b, 2, h.GetKind())
	b = appendText(b, 3, h.GetHolder())
	b = appendNumber(b, 4, h.GetFence())
	b = appendNumber(b, 5, h.GetAcquiredBy())
	b = end(b, inner)
	if v := m.GetValidity(); v != nil {
		b, inner = begin(b, 2)
		b = appendDuration(b, 1, v.GetRemaining())
		b = appendNumber(b, 2, v.GetAnchor())
		b = appendDuration(b, 3, v.GetAnchorAge())
		b = end(b, inner)
	}
	b = appendNumber(b, 3, uint64(m.GetHoldCount()))
	b = appendNumber(b, 4, protowire.EncodeBool(m.GetAuto()))
	return end(b, start), true
}
