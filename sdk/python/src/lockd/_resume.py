"""How a session begins, and goes on in another stream. Everything here is called with the engine's lock held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockd.errors import LockLost, ProtocolError
from lockd.v1 import session_service_pb2 as pb

from . import _clock
from ._clock import NEVER, now
from ._hold import Grant, Key, key_of

if TYPE_CHECKING:
    from ._session import Session
    from ._stream import Stream


class Bid:
    """An attempt to begin a session, or to go on with one. Until it is over nothing is sent on the stream that there
    is, and nothing that comes on it counts: what it granted now the other replica would not know of. Each attempt has
    a number of its own: what became of the last one may not be known."""

    def __init__(self, s: Session) -> None:
        s.parked, s.stream = s.stream, None
        s.epoch += 1
        s.next_id += 1  # that of Open
        self.epoch, self.id, self._now = s.epoch, s.next_id, now()
        self.claimed: dict[Key, pb.HeldLock] = {}
        self._ages: dict[Key, float] = {}
        self.resume = pb.Resume(session_id=s.id, resume_token=s.token, epoch=s.epoch, last_request_id=s.next_id)
        _clock.put(self.resume.age, self._now - s.opened)
        for h in s.holds.by_key.values():
            for g in reversed(h.grants):
                self._name(g)
        releases = [c for c in s.pending.values() if c.kind == "release" and c.grant]
        for call in releases:
            if call.frees_all and call.grant:
                self._name(call.grant)
        for call in releases:
            claim = self.claimed.get(call.grant.hold.key) if call.grant else None
            if claim is not None and not call.frees_all:  # the others may be gone
                claim.permits = min(max(claim.permits, 1), call.body.keep)
        self._trim(s.limits.frame_bytes or 1 << 20)
        del self.resume.holds[:]
        self.resume.holds.extend(self.claimed.values())

    def _name(self, g: Grant) -> None:
        """Adds a grant to what is held, perhaps to a hold that is there already."""
        key = g.hold.key
        claim = self.claimed.get(key)
        if claim is None:
            claim = self.claimed[key] = pb.HeldLock(hold=g.proto(), permits=g.permits)
            if g.hold.most != NEVER:
                _clock.put(claim.max_hold, max(g.hold.most - self._now, 0))
        if claim.hold.fence == g.fence:
            claim.hold_count += 1
            age = self._now - g.granted
            if age >= self._ages.get(key, 0):  # of the first one, as the server keeps it
                self._ages[key], claim.annotation = age, g.annotation
                _clock.put(claim.age, age)
            claim.auto = claim.auto or g.hold.auto

    def _trim(self, most: int) -> None:
        """Leaves out annotations as long as there are more bytes than one frame may have: the holds must get through,
        what people like to read need not."""
        size = sum(c.ByteSize() + 8 for c in self.claimed.values())
        for claim in reversed(self.claimed.values()):
            if size <= most:
                return
            size -= len(claim.annotation.encode())
            claim.annotation = ""


def attach(s: Session, st: Stream, bid: Bid, opened: pb.Opened) -> bool:
    """Has a session begin, or go on, in a stream. What it had asked for on the one before and has no answer for is
    asked again. False if the session has ended meanwhile."""
    if s.over:
        return False
    s.stream, s.at, s.ttl = st, st.at, st.ttl
    s.id, s.token = s.id or opened.session_id, opened.resume_token or s.token
    s.limits = opened.limits
    _resumed(s, st, bid, opened)
    s.ask_again()
    st.begin()
    if s.parked is not None:
        old, s.parked = s.parked, None
        old.leave()
    return True


def _resumed(s: Session, st: Stream, bid: Bid, opened: pb.Opened) -> None:
    """Notes what became of the holds."""
    claimed, freeing = dict(bid.claimed), s.releases()
    for r in opened.resumed:
        key = key_of(r.hold)
        claimed.pop(key, None)
        h = s.holds.by_key.get(key)
        if h is not None and h.grants[-1].fence == r.hold.fence:
            s.holds.raise_to(h, st.beats.until(r.validity))
        elif not any(c.frees_all for c in freeing.get(key, ())):
            s.release(Grant(s, r.hold))
    for lost in opened.lost:
        claimed.pop(key_of(lost.hold), None)
        s.holds.lost(lost)
        s.free(freeing.get(key_of(lost.hold), ()))
    for key, claim in claimed.items():  # nobody renews these
        untold = ProtocolError("nothing was told of the lock after the session was resumed")
        s.end(s.holds.by_key.get(key), int(claim.hold.fence), LockLost(key[0], "SESSION_ENDED", cause=untold))
        s.free(freeing.get(key, ()))
