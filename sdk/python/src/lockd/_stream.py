"""One stream of a session. Two threads work for it: one of ours reads, and the one in which gRPC sends calls `_frames`.
Each stream has a connection of its own, so that a new one can be at another replica while the old one is being left."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import grpc

from lockd.errors import LockdError, ProtocolError, SessionSilent, of_failure, of_rpc
from lockd.v1 import session_service_pb2 as pb, session_service_pb2_grpc as rpc

from ._answers import Answers
from ._call import Call
from ._clock import NEVER, Beats, now, seconds
from ._resume import Bid

if TYPE_CHECKING:
    from ._session import Session

log = logging.getLogger("lockd")

_MOST_IN_A_FRAME = 64
"""With a few frames under way the client, lockd and Redis work side by side; one frame with everything would go round
and keep two of the three waiting."""
_FEW, _GATHER = 8, 0.0005
"""With more callers than a few, the writer waits so many seconds for those that are about to ask: Python's threads take
turns, and a fuller frame costs less of them."""
_HASTE = 4
"""Into how many parts of an interval the time to the next heartbeat is cut when a validity is short."""


_SHORTEST = 0.01
"""Seconds: a heartbeat interval or session TTL that is told as less, or not at all, is a mistake."""


class Ended(LockdError):
    """The server ended the session without an error."""


class Left(LockdError):
    """The session goes on in another stream."""


class Stream:
    """What belongs to one stream of a session."""

    def __init__(self, session: Session, at: int, channel: Any) -> None:
        self.session, self.at, self.channel = session, at, channel
        self.epoch = 0  # its number in its session
        self.ttl = self.interval = 0.0
        self.beats = Beats()
        self.draining = False  # the server asked to leave
        self.stuck = False  # and the session could not go on elsewhere when that was tried
        self.silent = False  # nothing was heard for a while
        self.closing: LockdError | None = None  # why the server is about to end it
        self._thread: threading.Thread | None = None
        self._cause: LockdError | None = None  # why we ended it
        self._call: Any = None
        self._heard = NEVER  # when the last message came
        self._beat_at = NEVER  # when a heartbeat is due
        self._hasty = False  # one is to be sent early
        self._begun = False
        self._ended = False
        self._wake = threading.Condition(session.engine.mu)
        self._idle = False  # the writer waits
        self._answers = Answers(self)

    # The handshake, in the thread that connects.

    def open(self, bid: Bid, wishes: pb.Open, metadata: list[tuple[str, str]]) -> pb.Opened:
        """Sends Open and waits for Opened, until cancel is called."""
        message = pb.SessionRequest(request_id=bid.id, open=wishes)
        if bid.resume.session_id:
            message.open.resume.CopyFrom(bid.resume)
        self.epoch, self.beats.opened = bid.epoch, now()
        call = rpc.SessionServiceStub(self.channel).Session(self._frames(message), metadata=metadata)
        with self.session.engine.mu:
            self._call = call
            if self._cause is not None:
                call.cancel()
        try:
            m = next(call)
        except StopIteration:
            raise Ended from None
        except grpc.RpcError as e:
            raise self._cause or of_rpc(e) from None
        return self._opened(m)

    def _opened(self, m: pb.SessionResponse) -> pb.Opened:
        match m.WhichOneof("message"):
            case "opened":
                self.ttl, self.interval = seconds(m.opened.session_ttl), seconds(m.opened.heartbeat_interval)
                if min(self.ttl, self.interval) >= _SHORTEST:
                    return m.opened
                raise ProtocolError("no sound heartbeat interval or session TTL was told")
            case "closing":
                raise of_failure(m.closing.failure) or Ended()
            case "result":
                raise of_failure(m.result.failure) or ProtocolError("the first message was not Opened")
        raise ProtocolError("the first message was not Opened")

    # From here on with the engine's lock held, where nothing else is said.

    def begin(self) -> None:
        """Begins to send what is queued, and heartbeats: the first one at any moment of an interval, so that clients
        that came at once do not beat at once."""
        self._begun, self._heard = True, now()
        self._beat_at = now() + random.uniform(0, self.interval)
        self.rouse(always=True)
        self._listen()

    def start(self) -> None:
        """Begins to read."""
        self._thread = threading.Thread(target=self._read, name="lockd-reader", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Waits until nothing reads any more. Without the lock."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def rouse(self, *, always: bool = False) -> None:
        """Wakes the writer."""
        if self._idle or always:
            self._wake.notify_all()
            self._idle = False

    def cancel(self, cause: LockdError) -> None:
        """Ends it from here."""
        self._cause = self._cause or cause
        if self._call is not None:
            self._call.cancel()
        self.end()

    def leave(self) -> None:
        """Ends it because the session has left it."""
        self.cancel(Left())

    def end(self) -> None:
        """Lets its threads end."""
        self._ended = True
        self.session.engine.decided.notify_all()
        self.rouse(always=True)

    def cause(self, error: LockdError | None) -> LockdError:
        """Why it ended: our word counts, then the server's, then that of gRPC."""
        return self._cause or self.closing or error or Ended()

    # Sending.

    def _frames(self, first: pb.SessionRequest) -> Iterator[pb.SessionRequest]:
        """What is sent, in the thread in which gRPC sends. What comes while a frame is being sent goes into the next
        one: the busier the client, the fuller the frames. It takes the lock by itself."""
        yield first
        last = False
        while not last:
            with self._wake:
                while not self._due():
                    self._idle = True
                    self._wake.wait(min(max(self._beat_at - now(), 0), threading.TIMEOUT_MAX))
                if self._gathers():
                    self._wake.wait(_GATHER)
                # This process may have stood still: what is asked now is for the next session.
                if self._ended or self._overdue():
                    return
                frames, last = self._take()
            yield from frames

    def _due(self) -> bool:
        s = self.session
        mine = self._begun and s.stream is self  # else what is queued is for another one
        return self._ended or (mine and (len(s.queue) > 0 or s.leaving)) or now() >= self._beat_at

    def _gathers(self) -> bool:
        """Whether others are about to ask. The tasks of a loop ask in the same turn."""
        s = self.session
        return _FEW < len(s.pending) > 2 * len(s.queue) and not s.engine.mails

    def _take(self) -> tuple[list[pb.SessionRequest], bool]:
        """Empties the queue, behind a heartbeat if one is due. From here on the requests count as sent. The last of all
        is Goodbye."""
        s, frames, at = self.session, [], now()
        if at >= self._beat_at:
            self._hasty, self._beat_at = False, at + self.interval
            frames.append(pb.SessionRequest(heartbeat=pb.Heartbeat(sent_id=self.beats.next(at))))
        if s.stream is not self:
            return frames, False
        calls = []
        while s.queue:
            call = s.queue.popleft()
            if not (call.settled or (call.abandoned and not call.seen and call.kind == "acquire")):
                call.sent = True
                calls.append(call)
        frames += _packed(calls, at, (s.limits.frame_bytes or 1 << 20) // 2)
        if s.leaving:
            frames.append(pb.SessionRequest(goodbye=pb.Goodbye()))
        return frames, s.leaving

    def hasten(self) -> None:
        """Has a heartbeat sent early: some lease was not renewed in time, and its renewal is tried again all the
        while."""
        if not self._hasty:
            self._hasty, self._beat_at = True, min(self._beat_at, now() + self.interval / _HASTE)
            self.rouse()

    # Reading.

    def _read(self) -> None:
        """Hears the server until the stream ends, or the session has left it. Nothing that a stream tells counts after
        that. It takes the lock by itself."""
        engine = self.session.engine
        error: LockdError | None = None
        try:
            for m in self._call:
                if not self._hear(m):
                    break
        except grpc.RpcError as e:
            error = of_rpc(e)
        except Exception as e:  # a mistake of ours must not leave locks that seem held
            log.exception("reading a stream failed")
            error = ProtocolError(str(e))
            self._call.cancel()
        with engine.mu:
            if self._enter(False):
                engine.stream_over_locked(self, self.cause(error))
            self.end()
        self.channel.close()

    def _hear(self, m: pb.SessionResponse) -> bool:
        """Takes a message, and then wakes all whom it concerns. False if the session has left the stream."""
        engine = self.session.engine
        woken: list[Callable[[], object]] = []
        try:
            with engine.mu:
                self._heard = now()
                if not self._enter(m.WhichOneof("message") == "heartbeat_ack"):
                    return False
                if self.silent:  # it is heard again
                    self.silent = False
                    engine.status_locked("CONNECTED", session=self.session.id)
                engine.woken = woken
                try:
                    self._answers.handle(m)
                finally:
                    engine.woken = None
        finally:
            for wake in woken:
                wake()
        return True

    def _enter(self, ack: bool) -> bool:
        """Whether the session is on this stream. While another one is tried it waits for what becomes of that, unless
        it brings the answer to a heartbeat: the leases last that long wherever the session goes on."""
        s = self.session
        while s.parked is self and not ack and not self._ended:
            s.engine.decided.wait()
        return s.stream is self or s.parked is self

    # Silence.

    def _patience(self) -> float:
        """How long it may be silent until its session seeks a better one: an interval of heartbeats and TTL/12. A
        quarter of a TTL is left for that, as a lease is valid for two thirds of one after the heartbeat that was
        answered last."""
        return self.ttl * 5 / 12

    def _overdue(self) -> bool:
        """Ends it if nothing was heard for the session's TTL, and says whether that is so."""
        if now() - self._heard < self.ttl:
            return False
        self.cancel(SessionSilent())
        return True

    def _listen(self) -> None:
        """Checks whether it is silent, and again by itself. If nothing was heard for a while the session seeks another
        stream, and keeps this one until then. If nothing was heard for the session's TTL, that is its end."""
        s = self.session
        if self._ended:
            return
        silence = now() - self._heard
        if self._overdue():
            return
        left = self._patience() - silence
        if left <= 0:
            left = min(self._patience(), self.ttl - silence)
            if s.stream is self and not self.silent and s.resumable:
                self.silent = True
                s.engine.status_locked("INTERRUPTED", error=SessionSilent())
                s.engine.move_locked(s, closed=False)
        s.engine.timers.at_locked(now() + left, self._listen)


def _packed(calls: list[Call], at: float, most: int) -> list[pb.SessionRequest]:
    """The messages of calls in as few frames as the server allows. `most` is half of what it does; the rest is for
    framing, which one that needs more than half does without."""
    groups: list[list[Call]] = []
    room = 0
    for call in calls:
        room -= call.size
        if room < 0 or len(groups[-1]) == _MOST_IN_A_FRAME:
            groups.append([])
            room = max(most - call.size, 0)
        groups[-1].append(call)
    return [_frame(of, at) for of in groups]


def _frame(calls: list[Call], at: float) -> pb.SessionRequest:
    if len(calls) == 1:
        return calls[0].message(pb.SessionRequest, at)
    frame = pb.SessionRequest()
    add = frame.batch.requests.add
    for call in calls:
        call.message(add, at)
    return frame
