"""A session: what it holds and what it asked for. It is on one stream at a time, and goes on in another one when that
breaks. Everything here is called with the engine's lock held."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lockd.errors import ClientClosed, LockLost, NotHeld, QuotaReached
from lockd.v1 import session_service_pb2 as pb

from ._call import Broken, Call, SessionOver
from ._clock import now
from ._hold import UNLOCKED, Grant, Hold, Holds, Key

if TYPE_CHECKING:
    from ._engine import Engine
    from ._stream import Stream

MOST_PENDING = 100_000
"""Requests without an answer, whether somebody still waits for it or not: a server that never answers makes more of the
latter with each try."""


class Session:
    """A client's relation with the server."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.opened = now()
        self.id = ""  # empty until it is open
        self.token = ""  # what resuming it needs
        self.ttl = 0.0
        self.at = 0  # which of the client's targets it was on last
        self.limits = pb.Limits()
        self.stream: Stream | None = None  # None while there is none
        self.parked: Stream | None = None  # the one that it was on, while another one is tried
        self.epoch = 0  # of the last attempt to open a stream
        self.next_id = 0
        self.queue: deque[Call] = deque()
        self.pending: dict[int, Call] = {}  # sent or queued, not answered
        self.holds = Holds(self)
        self.leaving = False  # nothing new is sent; Goodbye follows what is queued
        self.over = False
        self.said = False  # and the server said so, and nothing else

    @property
    def resumable(self) -> bool:
        """Whether it can go on in another stream."""
        return not self.leaving and not self.over

    @property
    def displaced(self) -> bool:
        """Whether it needs another stream: there is none, the server asked for it, or is silent."""
        return self.stream is None or self.stream.draining or self.stream.silent

    def submit(self, call: Call) -> bool:
        """Queues a call and has it sent, unless the session takes none any more."""
        if self.over or self.leaving:
            return False
        if (refused := call.refused(self.limits)) is not None:
            call.settle(error=refused)
            return True
        if call.home is None and len(self.pending) >= MOST_PENDING:
            text = "too many requests of this client have no answer"
            call.settle(error=QuotaReached(text, reason="QUOTA_REQUESTS"))
            return True
        self.number(call)
        if call.each is not None:
            call.each()
            call.each = None
        if call.kind == "extend" and call.body.may_shorten:
            self.holds.shortening(call)
        self.rouse()
        return True

    def number(self, call: Call) -> None:
        """Gives a call the next id and puts it into the queue."""
        call.id = self.next_id = self.next_id + 1
        if call.tracked:
            self.pending[call.id] = call
        self.queue.append(call)

    def rouse(self) -> None:
        """Wakes the writer, if there is one."""
        if self.stream is not None:
            self.stream.rouse()

    def disown(self, call: Call) -> bool:
        """Gives a call up for which nobody waits any more, and says whether the server surely never sees it. An
        acquire is cancelled, and released if it is granted all the same."""
        call.abandoned = True
        if call.kind != "acquire" or (not call.sent and call.seen):
            return False
        if not call.sent:
            self.pending.pop(call.id, None)  # the writer passes over it
            return True
        self.submit(Call("cancel", pb.Cancel(target_id=call.id)))
        return False

    def release(self, g: Grant) -> None:
        """Releases what nobody wants."""
        self.submit(g.call("release", pb.Release))

    def unlock(self, g: Grant, call: Call) -> bool:
        """Ends a grant by unlock, sends its release, and says whether it was still held."""
        if g.cause is not None or g not in g.hold.grants:
            return False
        # In this order: what a signal leaves half done is found by Holds.renewed.
        g.end_locked(UNLOCKED)
        self.submit(call)
        self.holds.remove(g)
        self.leave_if_idle()
        return True

    def expire_locked(self, h: Hold) -> None:
        """Ends a hold whose deadline has passed. The server may still be renewing it, so it is released. It ended by
        max_hold if that is what made its deadline."""
        for g in h.grants:
            self.release(g)
        most = h.deadline >= h.most
        self.end(h, 0, LockLost(h.key[0], "EXPIRED" if most else "DEADLINE_PASSED", max_hold=most))

    def end(self, h: Hold | None, fence: int, cause: Exception) -> None:
        """Ends the grants of a hold."""
        self.holds.end(h, fence, cause)
        self.leave_if_idle()

    def leave_if_idle(self) -> None:
        """Ends a session that has to leave a draining server, and found no other one, as soon as nothing lives on
        it."""
        st = self.stream
        if st is not None and st.draining and st.stuck and not self.holds.by_key and not self.pending:
            self.leaving = True
            self.rouse()

    def finish(self, cause: Exception) -> None:
        """Ends it: its grants are lost, or released if the client is closed, and its calls have no answer."""
        self.over = True
        self.finish_grants(cause)
        pending, self.pending = self.pending, {}
        self.queue.clear()
        for call in pending.values():
            over = SessionOver(f"the session ended: {cause}")
            over.__cause__, over.unsent = cause, not call.sent and not call.seen
            self.engine.answered_locked(self, call, None, over)

    def finish_grants(self, cause: Exception) -> None:
        """Ends all grants."""
        if isinstance(cause, ClientClosed):
            self.holds.end_all(lambda _: cause)
        else:
            self.holds.end_all(lambda name: LockLost(name, "SESSION_ENDED", cause=cause))

    def releases(self) -> dict[Key, list[Call]]:
        """The releases that are not answered, by what they release. There may be as many as holds, and each is looked
        for."""
        found: dict[Key, list[Call]] = {}
        for call in self.pending.values():
            if call.kind == "release" and call.grant:
                found.setdefault(call.grant.hold.key, []).append(call)
        return found

    def free(self, releases: Iterable[Call]) -> None:
        """Answers the releases of a hold that is not there. One that the server may have seen was done, or nothing
        was left to do."""
        for call in releases:
            if self.pending.get(call.id) is call:
                del self.pending[call.id]
                lost = None if call.sent or call.seen else NotHeld("the lock was lost before")
                call.settle(0, lost)

    def ask_again(self) -> None:
        """Has all that is not answered sent on a new stream, in the same order, with new ids. Releases come first:
        what is being released must not be held once more."""
        calls = list(self.pending.values()) + [c for c in self.queue if not c.tracked]
        calls.sort(key=lambda c: (c.kind != "release", c.id))
        self.pending.clear()
        self.queue.clear()
        for call in calls:
            self._again(call)

    def _again(self, call: Call) -> None:
        seen = call.sent or call.seen
        call.begin_again()
        match call.kind:
            case "cancel":  # of an id that nobody knows any more
                return
            case "acquire":
                if call.abandoned and not call.former:
                    return
            case "set_limit":
                if seen:
                    self.engine.answered_locked(self, call, None, Broken())
                    return
            case "release" | "extend":
                pass
            case "watch":
                if call.home is not None or call.abandoned:  # the client repeats it by itself
                    return
            case _:
                if call.abandoned:
                    return
        self.number(call)
