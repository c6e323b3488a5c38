"""What a session holds: grants, the deadlines until which they are surely held, and what ends them."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from lockd.errors import LockLost
from lockd.v1 import lock_pb2, session_service_pb2 as pb

from ._call import Call
from ._clock import NEVER, Until, now, seconds

if TYPE_CHECKING:
    from ._session import Session

Key = tuple[str, int, str]


def key_of(h: lock_pb2.Hold) -> Key:
    """How a hold is known inside a session: name, kind, holder."""
    return h.name, h.kind, h.holder


class Unlocked(Exception):
    """The end of a grant by its own release. No failure, and never raised."""


UNLOCKED = Unlocked()


class Hold:
    """What a holder has of a name. The grants of a named holder share it, and live as long as each other."""

    __slots__ = ("auto", "deadline", "grants", "key", "most", "rings", "shortening")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.deadline = 0.0  # moves earlier only by shorten
        self.grants: list[Grant] = []  # those that have not ended, in their order
        self.most = NEVER  # by max_hold: no deadline is later
        self.auto = False
        self.shortening: Call | None = None  # the last one that is not answered
        self.rings = NEVER  # its alarm that counts

    def last(self, until: Until) -> float:
        """The deadline that a validity gives, and never after the end of max_hold. One that lasts until that end gives
        the end that is known since the grant: what is told of it later is the same moment, estimated by a message that
        may have been on its way for longer."""
        return self.most if until.most and self.most != NEVER else min(until.deadline, self.most)


class Grant:
    """A lock that was granted. It ends by unlock or by being lost, once and for good."""

    __slots__ = (
        "acquired_by", "annotation", "cause", "fence", "granted", "hold", "listeners", "permits", "release", "session",
    )  # fmt: skip

    def __init__(self, session: Session, h: lock_pb2.Hold) -> None:
        self.session = session
        self.hold = Hold(key_of(h))
        self.fence = h.fence
        self.acquired_by = h.acquired_by  # the request that took it, as the server knows it
        self.granted = now()
        self.annotation = ""
        self.permits = 0
        self.cause: Exception | None = None
        self.release: Call | None = None  # of an unlock with an unknown outcome
        self.listeners: list[Callable[[], None]] | None = None  # called once at the end, with the lock held

    def proto(self) -> lock_pb2.Hold:
        """The hold as it was granted."""
        name, kind, holder = self.hold.key
        h = lock_pb2.Hold(name=name, holder=holder, fence=self.fence, acquired_by=self.acquired_by)
        h.kind = kind  # type: ignore[assignment]
        return h

    def call(self, kind: str, body: Callable[..., pb.Release | pb.Extend], by: float = NEVER, **more: object) -> Call:
        """A request about it, of a message that has more fields."""
        name, of, holder = self.hold.key
        call = Call(kind, body(name=name, kind=of, holder=holder, fence=self.fence, **more))
        call.grant, call.home, call.changes, call.by = self, self.session, True, by
        return call

    def err(self) -> Exception | None:
        """What ended it; None while it is held. It reads the clock: a process that was stopped past the deadline
        is told by its first question."""
        if self.cause is None and now() >= self.hold.deadline:
            with self.session.engine.mu:
                if self.cause is None and now() >= self.hold.deadline:  # it may have been renewed just now
                    self.session.expire_locked(self.hold)
        return self.cause

    def end_locked(self, cause: Exception) -> None:
        """Notes the end, of which the first one counts, and tells those who asked."""
        if self.cause is not None:
            return
        self.cause = cause
        listeners, self.listeners = self.listeners, None
        for call in listeners or ():
            call()

    def listen(self, call: Callable[[], None]) -> None:
        """Has a function called at the end, at once if that has been. It is called with the lock held."""
        self.err()
        with self.session.engine.mu:
            if self.cause is None:
                self.listeners = [*(self.listeners or ()), call]
            else:
                call()

    def unlisten(self, call: Callable[[], None]) -> None:
        """Takes that back."""
        with self.session.engine.mu:
            if self.listeners is not None and call in self.listeners:
                self.listeners.remove(call)


Alarm = tuple[float, int, Hold]
"""When a hold is to be looked at, and a number that no other one has."""
_FEW_ALARMS = 64
"""It does not matter if none of so many counts."""


def alarm_counts(a: Alarm) -> bool:
    """Whether its hold has to be looked at then: it has not ended, and is not looked at earlier."""
    return a[2].rings == a[0] and bool(a[2].grants)


class Holds:
    """The holds of a session, and its half of the rules of deadlines. The engine's lock guards it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.by_key: dict[Key, Hold] = {}
        self._alarm_at = NEVER
        self._alarms: list[Alarm] = []  # a heap. Some do not count, see alarm_counts
        self._count = itertools.count()

    def add(self, g: Grant, until: Until, most: float, auto: bool) -> None:
        """Takes a grant in that is valid until then, and no later than `most` whatever follows. An auto lease is
        renewed by the server."""
        h = self.by_key.get(g.hold.key)
        if h is not None and h.deadline <= now():
            self.session.expire_locked(h)
            h = None
        if h is None:
            h = self.by_key[g.hold.key] = g.hold
            h.auto, h.most = auto, most
            h.deadline = h.last(until)
        else:
            g.hold, h.auto = h, auto
            h.most = most if h.most == NEVER else h.most
            self.raise_to(h, until)
        h.grants.append(g)
        self.alarm(h)

    def remove(self, g: Grant) -> bool:
        """Takes a grant out, and says whether it was there. The others keep the lease that they share."""
        if g not in g.hold.grants:
            return False
        g.hold.grants.remove(g)
        if not g.hold.grants:
            self.by_key.pop(g.hold.key, None)
        return True

    def raise_to(self, h: Hold, until: Until) -> None:
        """Moves a deadline later. One that has passed stays passed: somebody may have seen that already. While a
        shorten is not answered nothing else that the server tells counts: it may have been written before."""
        deadline = h.last(until)
        if h.deadline <= now():
            self.session.expire_locked(h)
        elif deadline > h.deadline and h.shortening is None:
            h.deadline = deadline

    def renewed(self, deadline: float) -> None:
        """Notes until when all auto leases are valid."""
        for h in list(self.by_key.values()):
            for g in [g for g in h.grants if g.cause is not None]:  # its unlock was interrupted
                self.remove(g)
                self.session.release(g)
            if h.auto:
                self.raise_to(h, Until(deadline))

    def shortening(self, call: Call) -> None:
        """Notes a shorten that is about to be sent: from here on the earlier end counts. The server takes 1 % and
        2 ms off the lease, for clocks that differ."""
        assert call.grant is not None
        h, lease = call.grant.hold, seconds(call.body.lease)
        h.shortening = call
        end = now() + lease - (lease / 100 + 0.002)
        if end < h.deadline:
            h.deadline = end
            self.alarm(h)

    def changed(self, call: Call, until: Until) -> None:
        """Notes an extend that was done."""
        assert call.grant is not None
        h = call.grant.hold
        h.auto = not call.body.HasField("lease")
        self.raise_to(h, until)

    def end(self, h: Hold | None, fence: int, cause: Exception) -> None:
        """Ends the grants of a hold. A fence tells an old hold of a holder from its present one."""
        for g in list(h.grants) if h else ():
            if fence in (0, g.fence) or g.fence == 0:
                self.remove(g)
                g.end_locked(cause)

    def lost(self, lost: pb.Lost) -> None:
        """Ends the grants of a hold that the server lost."""
        key = key_of(lost.hold)
        reason = pb.Lost.Reason.Name(lost.reason) if lost.reason in pb.Lost.Reason.values() else "REASON_UNKNOWN"
        most = lost.cause == pb.Lost.CAUSE_MAX_HOLD
        cause = LockLost(key[0], reason.removeprefix("REASON_"), by=lost.by, why=lost.why, max_hold=most)
        self.end(self.by_key.get(key), int(lost.hold.fence), cause)

    def end_all(self, cause: Callable[[str], Exception]) -> None:
        """Ends all grants, each with what the function says for its name."""
        holds = list(self.by_key.values())
        self.by_key.clear()
        for h in holds:
            grants, h.grants = h.grants, []
            for g in grants:
                g.end_locked(cause(h.key[0]))

    def alarm(self, h: Hold) -> None:
        """Has a hold looked at when its deadline has passed, or earlier."""
        if h.rings <= h.deadline:
            return
        if len(self._alarms) >= 2 * len(self.by_key) + _FEW_ALARMS:
            kept = [a for a in self._alarms if alarm_counts(a)]
            heapq.heapify(kept)
            self._alarms = kept
        at = h.deadline
        heapq.heappush(self._alarms, (at, next(self._count), h))
        h.rings = at  # only now: a signal may interrupt this, and until then the one before counts
        self._ring_at(at)

    def _ring_at(self, at: float) -> None:
        """Has the one timer of the session ring at a time, if it would not ring earlier anyway. It may ring early,
        never late: a deadline that moved later is noticed when it rings."""
        if at < self._alarm_at:
            self._alarm_at = at
            self.session.engine.timers.at_locked(at, lambda: self._ring(at))

    def _ring(self, at: float) -> None:
        """Ends what is due. However many holds there are, only those are looked at whose turn it is."""
        if at != self._alarm_at:  # an earlier one was set since
            return
        self._alarm_at = NEVER
        while (all_ := self._alarms) and (all_[0][0] <= now() or not alarm_counts(all_[0])):
            if not alarm_counts(a := heapq.heappop(all_)):
                continue
            h = a[2]
            h.rings = NEVER
            if h.deadline <= now():
                self.session.expire_locked(h)
            else:
                self.alarm(h)
        if self._alarms:
            self._ring_at(self._alarms[0][0])
