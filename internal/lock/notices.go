package lock

import "time"

// Notice is what a listener hears of a name.
type Notice struct {
	What What
	// For is the fair waiter for whom the notice is; empty: it is for everybody.
	For Owner
	// After is, with NoticeTurn, when the name will be free at the latest.
	After time.Duration
	// Cause and Fence are, with NoticeEnded, those of the hold. The fence is 0 if it is not known.
	Cause EndCause
	Fence Fence
	// Hold is, with NoticeEnded, the hold's ID as in a Seen; empty: the fence tells which one it was.
	Hold string
	// Unsure says, with NoticeEnded, that the hold may not have ended, or that nobody had it because an attempt that
	// failed was undone. A Seen shows whether a hold that was seen has gone.
	Unsure bool
}

// What happened.
type What uint8

// What a Notice can say.
const (
	// NoticeListening: from now on releases are heard. It comes once after Listen or Watch, and after each interruption.
	// Anything may have happened before it.
	NoticeListening What = iota + 1
	// NoticeReleased: somebody released the name, or it may be worth another attempt for another reason.
	NoticeReleased
	// NoticeTurn: a fair waiter is the next one, but the name is held.
	NoticeTurn
	// NoticeDeaf: releases are not heard at the moment. NoticeListening will come.
	NoticeDeaf

	// The others are for those who watch a name.

	// NoticeEnded: a hold ended, with Cause and Fence.
	NoticeEnded
	// NoticeChanged: something about the name changed, or may have. A Seen tells what.
	NoticeChanged
	// NoticeTouched: a hold was renewed, most likely; or anything else changed that nobody tells of, except the grant of a
	// hold, which is NoticeChanged.
	NoticeTouched
	// NoticeFlushed: the store lost its data, or may have.
	NoticeFlushed
)

// EndCause is what ended a hold.
type EndCause uint8

// The causes. EndUnknown: nobody observed the name when the hold ended.
const (
	EndUnknown EndCause = iota
	EndReleased
	EndHandedOver
	EndExpired
	EndForced
	EndDataLoss
)
