package storetest

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// attempt is an attempt to begin a session, or to go on with it.
func attempt(epoch uint64, nonce string) lock.SessionRecord {
	return lock.SessionRecord{
		ID: "5f3a1c9e-0b7d-4b52-9a43-2f9f6d1f7c11", Epoch: epoch, Nonce: nonce, TokenHash: "hash", Client: "c", Replica: "r",
	}
}

func (s *suite) take(r lock.SessionRecord) error { return s.Store.TakeSession(s.Context(), r, ttl) }

func (s *suite) keep(k lock.SessionKeep) error {
	told := make(chan error, 1)
	s.Store.StartKeepSession(k, func(err error) { told <- err })
	return <-told
}

// wantWas ends a record by force, and checks whether there was one.
func (s *suite) wantWas(id string, want bool) {
	s.Helper()
	was, err := s.Store.ForceEndSession(s.Context(), id)
	s.must(err)
	if was != want {
		s.Errorf("there was a record: %v, want %v", was, want)
	}
}

func kept(r lock.SessionRecord) lock.SessionKeep { return lock.SessionKeep{SessionRecord: r, TTL: ttl} }

// sessionContract is what a Store does with records of sessions.
var sessionContract = []contract{
	{"ASessionBeginsOnceAndGoesOnWithAGreaterEpoch", func(s *suite) {
		first, second := attempt(1, "a"), attempt(2, "b")
		s.wantErr(s.take(second), lock.ErrSessionGone)
		s.must(s.take(first))
		s.must(s.take(first)) // its answer was lost
		s.wantErr(s.take(attempt(1, "other")), lock.ErrSuperseded)
		s.must(s.take(second))
		s.must(s.take(second))
		s.wantErr(s.take(first), lock.ErrSuperseded) // late
		s.wantErr(s.take(attempt(2, "copy")), lock.ErrSuperseded)
		s.must(s.take(attempt(7, "c"))) // those between were never heard of
	}},
	{"OnlyItsTokenTakesASession", func(s *suite) {
		s.must(s.take(attempt(1, "a")))
		stranger := attempt(2, "b")
		stranger.TokenHash = "guessed"
		s.wantErr(s.take(stranger), lock.ErrToken)
		s.must(s.keep(kept(attempt(1, "a")))) // it is still that of the first
	}},
	{"WhoHasASessionKeepsIt", func(s *suite) {
		first, second := attempt(1, "a"), attempt(2, "b")
		s.wantErr(s.keep(kept(first)), lock.ErrSessionGone)
		s.must(s.take(first))
		s.must(s.keep(kept(first)))
		s.must(s.take(second))
		s.wantErr(s.keep(kept(first)), lock.ErrSuperseded)
		s.must(s.keep(kept(second)))
		s.wantErr(s.keep(kept(attempt(2, "copy"))), lock.ErrSuperseded)
	}},
	{"ARecordThatIsGoneIsMadeAgainOnlyIfThatIsWanted", func(s *suite) {
		third := kept(attempt(3, "c"))
		s.wantErr(s.keep(third), lock.ErrSessionGone)
		if len(s.Refuses) > 0 { // of several stores each decides that by itself
			return
		}
		third.Again = true
		s.must(s.keep(third))
		third.Again = false
		s.must(s.keep(third))
		s.wantErr(s.take(attempt(2, "b")), lock.ErrSuperseded)
		newer := kept(attempt(4, "d")) // another store knows of this attempt already
		s.must(s.keep(newer))
		s.wantErr(s.keep(third), lock.ErrSuperseded)
	}},
	{"AfterItsEndNobodyGoesOn", func(s *suite) {
		first, second := attempt(1, "a"), attempt(2, "b")
		s.must(s.take(first))
		s.must(s.take(second))
		s.wantErr(s.Store.EndSession(s.Context(), first.ID, 1), lock.ErrSuperseded)
		s.must(s.keep(kept(second)))
		s.must(s.Store.EndSession(s.Context(), first.ID, 2))
		s.must(s.Store.EndSession(s.Context(), first.ID, 2))
		s.wantErr(s.take(attempt(3, "c")), lock.ErrSessionGone)
		s.wantErr(s.keep(kept(second)), lock.ErrSessionGone)
		s.wantErr(s.Store.EndSession(s.Context(), first.ID, 1), lock.ErrSuperseded)
	}},
	{"WhatComesAfterTheEndMakesNoRecord", func(s *suite) {
		first, second := kept(attempt(1, "a")), kept(attempt(2, "b"))
		first.Again, second.Again = true, true
		s.must(s.Store.EndSession(s.Context(), first.ID, 1)) // there is none
		s.wantErr(s.keep(first), lock.ErrSessionGone)
		s.wantErr(s.take(first.SessionRecord), lock.ErrSessionGone)
		s.wantErr(s.take(second.SessionRecord), lock.ErrSessionGone)
		s.must(s.Store.EndSession(s.Context(), first.ID, 1))
		if len(s.Refuses) > 0 { // of several stores each decides by itself what it makes again
			return
		}
		s.must(s.keep(second)) // the record was lost, and an older attempt was ended late
		s.must(s.keep(second))
		s.wantErr(s.keep(first), lock.ErrSuperseded)
		s.must(s.take(attempt(3, "c")))
		s.must(s.Store.EndSession(s.Context(), first.ID, 3))
		s.wantErr(s.keep(second), lock.ErrSessionGone)
	}},
	{"ARecordThatIsEndedByForceIsEndedForWhoeverHadIt", func(s *suite) {
		first, second := attempt(1, "a"), kept(attempt(2, "b"))
		second.Again = true
		s.must(s.take(first))
		s.must(s.take(second.SessionRecord))
		s.wantWas(first.ID, true)
		s.wantWas(first.ID, false)
		s.wantErr(s.take(attempt(3, "c")), lock.ErrSessionGone)
		s.wantErr(s.keep(second), lock.ErrSessionGone)
		s.wantErr(s.Store.EndSession(s.Context(), first.ID, 1), lock.ErrSuperseded) // it does not have it
		s.must(s.Store.EndSession(s.Context(), first.ID, 2))
		s.wantErr(s.keep(second), lock.ErrSessionGone)
		s.wantWas(first.ID, false)
	}},
	{"AnEndByForceHoldsWhereNoRecordWasOrAnOlderOne", func(s *suite) {
		first, second := attempt(1, "a"), kept(attempt(2, "b"))
		second.Again = true
		s.wantWas(first.ID, false)
		s.wantErr(s.keep(second), lock.ErrSessionGone)
		s.wantErr(s.take(first), lock.ErrSessionGone) // late
		other := first
		other.ID, second.ID = "0d0f2f2e-93d4-4a4b-8a53-55aa0e2f9d22", "0d0f2f2e-93d4-4a4b-8a53-55aa0e2f9d22"
		s.must(s.take(other))
		s.wantWas(other.ID, true)
		s.wantErr(s.keep(second), lock.ErrSessionGone)
		s.must(s.Store.EndSession(s.Context(), other.ID, 1)) // by whoever had it before
		s.wantErr(s.keep(second), lock.ErrSessionGone)
		s.must(s.Store.EndSession(s.Context(), other.ID, 2))
		s.wantErr(s.keep(second), lock.ErrSessionGone)
	}},
	{"ARecordRunsOutUnlessItIsKept", func(s *suite) {
		short := 500 * time.Millisecond
		kept, other := kept(attempt(1, "a")), attempt(1, "a")
		other.ID = "0d0f2f2e-93d4-4a4b-8a53-55aa0e2f9d22"
		s.must(s.Store.TakeSession(s.Context(), other, short))
		s.must(s.Store.TakeSession(s.Context(), kept.SessionRecord, short))
		s.must(s.keep(kept))
		kept.TTL = short
		s.must(s.keep(kept)) // nothing is shortened
		time.Sleep(2 * short)
		s.must(s.keep(kept))
		other.Epoch, other.Nonce = 2, "b"
		s.wantErr(s.take(other), lock.ErrSessionGone)
	}},
	{"RecordsAreLostWithTheData", func(s *suite) {
		s.must(s.take(attempt(1, "a")))
		s.must(s.Hooks.Lose())
		s.wantErr(s.take(attempt(2, "b")), lock.ErrSessionGone)
	}},
	{"OtherSessionsAreOthers", func(s *suite) {
		one, other := attempt(1, "a"), attempt(1, "b")
		other.ID = "0d0f2f2e-93d4-4a4b-8a53-55aa0e2f9d22"
		s.must(s.take(one))
		s.must(s.take(other))
		s.must(s.Store.EndSession(s.Context(), other.ID, 1))
		s.must(s.keep(kept(one)))
	}},
	{"WhatIsNoSessionIsRefused", func(s *suite) {
		for _, r := range []lock.SessionRecord{
			{},
			{ID: "x", Nonce: "a", TokenHash: "t"},
			{ID: "x", Epoch: 1, TokenHash: "t"},
			{ID: "x", Epoch: 1, Nonce: "a"},
		} {
			s.wantErr(s.take(r), lock.ErrInvalid)
			s.wantErr(s.keep(kept(r)), lock.ErrInvalid)
		}
		s.wantErr(s.Store.TakeSession(s.ended(), attempt(1, "a"), ttl), lock.ErrUnavailable)
		s.wantErr(s.Store.EndSession(s.ended(), "x", 1), lock.ErrUnavailable)
		_, err := s.Store.ForceEndSession(s.ended(), "x")
		s.wantErr(err, lock.ErrUnavailable)
	}},
}
