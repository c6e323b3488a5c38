"""What a stream tells, and what that changes. Everything here is called with the engine's lock held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockd.errors import (
    Cancelled,
    Forbidden,
    LockdError,
    NotHeld,
    ProtocolError,
    StaleFence,
    TimedOut,
    held_error,
    of_failure,
)
from lockd.v1 import lock_pb2, session_service_pb2 as pb

from ._call import Call
from ._clock import NEVER, now, seconds
from ._hold import Grant

if TYPE_CHECKING:
    from ._stream import Stream


_ANSWERS = {
    "acquire": ("granted", "not_granted"),
    "release": ("released",),
    "extend": ("extended",),
    "look": ("looked",),
    "list_holds": ("hold_list",),
    "set_limit": ("limit_set",),
}
"""What answers a request, besides the Result of one that failed. Others have a Result alone."""


class Answers:
    """Takes the messages of one stream, in their order: a heartbeat's answer speaks of the locks granted before it, and
    of no later ones."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self._session, self._engine = stream, stream.session, stream.session.engine

    def handle(self, m: pb.SessionResponse) -> None:
        """Takes one message of the stream."""
        if m.WhichOneof("message") == "batch":
            for inner in m.batch.responses:
                self._take(inner)
        else:
            self._take(m)

    def _take(self, m: pb.SessionResponse) -> None:
        """Takes one message. One of a newer server can do without being understood."""
        kind = m.WhichOneof("message")
        if kind is None:
            return
        if (push := _PUSHES.get(kind)) is not None:
            push(self, m)
        else:
            self._answer(kind, m)

    # Pushes.

    def _on_heartbeat_ack(self, m: pb.SessionResponse) -> None:
        st, ack = self._stream, m.heartbeat_ack
        if not ack.HasField("valid_for"):
            return
        deadline = st.beats.at(ack.sent_id) + seconds(ack.valid_for)
        if deadline - now() < st.interval * 3 / 2:
            st.hasten()
        self._session.holds.renewed(deadline)

    def _on_lost(self, m: pb.SessionResponse) -> None:
        self._session.holds.lost(m.lost)
        self._session.leave_if_idle()

    def _on_at_risk(self, m: pb.SessionResponse) -> None:
        left = self._stream.beats.deadline(m.at_risk.validity) - now()
        self._engine.status_locked("AT_RISK", valid_for=max(left, 0))

    def _on_safe(self, _: pb.SessionResponse) -> None:
        self._engine.status_locked("SAFE")

    def _on_unlocked(self, m: pb.SessionResponse) -> None:
        self._engine.watches.unlocked(m.unlocked)

    def _on_unwatched(self, m: pb.SessionResponse) -> None:
        self._engine.watches.end(m.unwatched.name, of_failure(m.unwatched.failure) or Forbidden())

    def _on_draining(self, m: pb.SessionResponse) -> None:
        if self._stream.draining:
            return
        self._stream.draining = True
        self._engine.draining_locked(self._stream, seconds(m.draining.reconnect_within))
        self._session.leave_if_idle()

    def _on_closing(self, m: pb.SessionResponse) -> None:
        self._stream.closing = of_failure(m.closing.failure)

    def _on_queued(self, m: pb.SessionResponse) -> None:
        call = self._session.pending.get(m.request_id)
        if call is None or call.kind != "acquire":
            return
        q, news = m.queued, not call.waits or call.position != m.queued.position
        call.waits, call.position = True, q.position
        if call.tell is None or call.abandoned:
            return
        told = bool(call.news)
        if call.wants_positions and news:
            call.notice(q.position)
        if call.wants_holders and (q.held_by or q.client):
            call.notice(held_error(call.body.name, q))
        if call.news and not told:
            call.tell(call)

    # Answers.

    def _answer(self, kind: str, m: pb.SessionResponse) -> None:
        s = self._session
        call = s.pending.pop(m.request_id, None)
        if call is None:
            return
        if call.kind == "extend" and call.grant and call.grant.hold.shortening is call:
            call.grant.hold.shortening = None  # a later one may still be under way
        value, error = self._outcome(kind, call, m)
        self._engine.answered_locked(s, call, value, error)
        s.leave_if_idle()

    def _outcome(self, kind: str, call: Call, m: pb.SessionResponse) -> tuple[Any, LockdError | None]:
        if kind not in _ANSWERS.get(call.kind, ()) and not (kind == "result" and self._may_be_result(call, m)):
            return None, ProtocolError(f"{call.kind} was answered with {kind}")
        match kind:
            case "granted":
                return self._granted(call, m.granted)
            case "not_granted":
                return None, _not_granted(call.body.name, m.not_granted)
            case "released":
                if not call.frees_all and call.grant:
                    call.grant.permits = m.released.remaining
                return int(m.released.remaining), None
            case "extended":
                if call.grant:
                    self._session.holds.changed(call, self._stream.beats.until(m.extended.validity))
                return None, None
            case "result":
                error = of_failure(m.result.failure)
                # A release that was sent on an earlier stream, too, may have been carried out by the replica there:
                # that the hold is gone is what was asked for.
                if call.seen and call.frees_all and isinstance(error, NotHeld | StaleFence):
                    error = None
                return None, error
            case "hold_list":
                beats = self._stream.beats
                return (m.hold_list, [beats.deadline(h.validity) for h in m.hold_list.locks]), None
        return getattr(m, kind), None

    def _may_be_result(self, call: Call, m: pb.SessionResponse) -> bool:
        """Whether a Result is an answer: a failure always is."""
        return call.kind not in _ANSWERS or m.result.failure.code != 0

    def _granted(self, call: Call, g: pb.Granted) -> tuple[list[Grant] | None, LockdError | None]:
        """Makes the grants, in the order in which they were asked for, or releases everything if nobody wants it any
        more."""
        s = self._session
        items = call.body.items or (call.body,)
        holds = list(g.holds)
        right = len(items) == len(holds)
        for h, i in zip(holds, items, strict=False):
            right = right and h.name == i.name and h.kind == i.kind
        beats = self._stream.beats
        most = beats.deadline(g.validity, g.max_hold) if g.HasField("max_hold") else NEVER
        grants = []
        for i, h in enumerate(holds):
            grant = Grant(s, h)
            grant.annotation = call.body.annotation
            grant.permits = items[i].permits if right else 0
            if call.abandoned or not right:
                s.release(grant)
                continue
            s.holds.add(grant, beats.until(g.validity), most, g.auto)
            grants.append(grant)
        return (grants, None) if right else (None, ProtocolError("a grant of something else than was asked for"))


_PUSHES = {name.removeprefix("_on_"): f for name, f in vars(Answers).items() if name.startswith("_on_")}


def _not_granted(name: str, n: lock_pb2.NotGranted) -> LockdError:
    match n.cause:
        case lock_pb2.NotGranted.CAUSE_TIMED_OUT:
            return TimedOut()
        case lock_pb2.NotGranted.CAUSE_CANCELLED:
            return Cancelled()
    return held_error(name, n)
