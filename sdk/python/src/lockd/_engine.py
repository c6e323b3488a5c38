"""The engine: one session for a client, kept by threads of its own, under both of its faces, the blocking one and the
one of asyncio. So neither a busy event loop nor a program that does not come to the SDK keeps heartbeats from being
sent.

One lock guards everything. Nothing is done under it that blocks: answers wake those who wait, as soon as the lock is
free, and functions of the user are called by a thread of their own. Threads: one reads each stream, one of gRPC's sends
(_stream), one has the timers (_clock), one connects while there is something to connect (_connect).
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from lockd.errors import (
    PERMANENT,
    Backlog,
    Cancelled,
    ClientClosed,
    Draining,
    ForkUnsupported,
    LockdError,
    LockLost,
    OutcomeUnknown,
    ProtocolError,
    QuotaReached,
    SessionExpired,
    SessionSilent,
    Superseded,
    TimedOut,
    TimedOutUnknown,
    Unauthenticated,
    Unavailable,
)
from lockd.v1 import session_service_pb2 as pb

from . import _check, _fork
from ._call import Broken, Call, NoAnswer, SessionOver
from ._clock import Timers, now
from ._connect import Connector
from ._session import Session
from ._settings import Settings, Status
from ._stream import Ended, Stream
from ._watches import Watches

if TYPE_CHECKING:
    import asyncio

    from ._mail import Mail

log = logging.getLogger("lockd")

_F = TypeVar("_F")
_MOST_NEWS = 64  # for on_status, of those that it was not told yet
_CLOSE_TIMEOUT = 2.0  # of close; a tenth of it is enough if the server's answer means nothing


class Engine:
    """What a client is made of."""

    def __init__(self, settings: Settings, parent: Engine | None = None) -> None:
        self.settings = settings
        self._parent = parent  # it has the functions of the user called
        self._of_ttl: dict[float, tuple[Engine, Any]] = {}  # with their faces
        self.pid = os.getpid()
        self._reset()
        _fork.register(self)

    def _reset(self) -> None:
        """Begins without a session."""
        self.mu = threading.RLock()  # guards everything below
        self.decided = threading.Condition(self.mu)  # an attempt to go on elsewhere is over, or a session
        self.timers = Timers(self.mu)
        self.watches = Watches(self)
        self.session: Session | None = None
        self.open = False  # the session takes new requests
        self.closed = False
        self.connector = Connector(self)
        self._waiting: list[Call] = []  # for a session
        self.woken: list[Callable[[], object]] | None = None  # of those that are woken later
        self.mails: dict[asyncio.AbstractEventLoop, Mail] = {}  # of the face of asyncio
        self._untold: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._telling = False
        self._news: deque[Status] = deque(maxlen=_MOST_NEWS)

    def with_ttl(self, ttl: float, face: Callable[[Engine], _F]) -> _F:
        """The face of an engine like this one, of another session TTL. It is made once for each, and closed with this
        one."""
        _check.seconds("ttl", ttl, positive=True)
        with self.mu:
            if self.closed:
                raise ClientClosed()
            if ttl not in self._of_ttl or self._of_ttl[ttl][0].closed:
                made = Engine(dataclasses.replace(self.settings, session_ttl=ttl), self)
                self._of_ttl[ttl] = made, face(made)
            found: _F = self._of_ttl[ttl][1]
            return found

    # Requests.

    def submit(self, call: Call) -> None:
        """Has a request made, in whatever session there is, until it is answered. It is settled exactly once."""
        with self.mu:
            if call.home is not None:
                if not call.home.submit(call):
                    call.settle(error=SessionOver())
            elif self.closed:
                call.settle(error=ClientClosed())
            elif self.open and self.session is not None and self.session.submit(call):
                return
            else:
                self._seek_locked(call)

    def _seek_locked(self, call: Call) -> None:
        """Has a call wait for a session, and one opened."""
        try:
            _fork.check()
        except ForkUnsupported as e:
            call.settle(error=e)
            return
        if self.connector.error is not None and self.connector.busy and not call.patient:
            call.settle(error=unavailable(self.connector.error))
        else:
            self._wait_locked(call)
            self.connector.begin_locked()

    def _wait_locked(self, call: Call) -> None:
        """Has a call wait for a session."""
        call.placeless = True
        self._waiting.append(call)
        if call.tell is not None:
            call.tell(call)

    def bound(self, call: Call) -> float:
        """When late must be called unless the call is settled before."""
        return min(call.until, call.by) if call.placeless else call.by

    def late(self, call: Call) -> None:
        """Settles a call whose time is over, or does nothing if it has some left. A release goes on."""
        with self.mu:
            if call.settled or now() < self.bound(call) or call.frees_all:
                return
            if call.placeless:
                self._waiting.remove(call)
                call.settle(error=self._no_session(call))
                return
            s = self._owner(call)
            unsent = s.disown(call) if s is not None else not (call.sent or call.seen)
            call.settled = True  # nobody is told: who asks is the caller
            call.error = NoAnswer() if call.home is not None else self._missing(call, NoAnswer(), unsent)

    def abandon(self, call: Call) -> bool:
        """Gives a call up whose caller was interrupted. A grant that is there already is released. False if it had been
        answered and nothing was granted."""
        with self.mu:
            if call.settled:
                grants, call.value = call.value if call.kind == "acquire" and call.value else [], None
                for g in grants:
                    g.session.unlock(g, g.call("release", pb.Release))
                return bool(grants)
            if call.placeless:
                self._waiting.remove(call)
            elif (s := self._owner(call)) is not None:
                s.disown(call)
            call.settled, call.error = True, Cancelled()
            return True

    def _owner(self, call: Call) -> Session | None:
        s = call.home or self.session
        return s if s is not None and s.pending.get(call.id) is call else None

    def answered_locked(self, s: Session, call: Call, value: Any, error: Exception | None) -> None:
        """Takes what became of a call in a session. What was surely not done is asked again in the next one, and so is
        what may be done twice."""
        if call.abandoned:
            return
        over = isinstance(error, SessionOver)
        if error is None or call.home is not None:
            call.settle(value, error)
        elif isinstance(error, Draining) or (isinstance(error, SessionOver) and (error.unsent or not call.once)):
            call.forget()
            self._wait_locked(call)
            if over:
                return  # whoever ended the session has the rest done
            self.move_locked(s, closed=True)
            self.changed_locked()
        elif over or isinstance(error, Broken):
            call.settle(error=self._missing(call, error, getattr(error, "unsent", False)))
        else:
            call.settle(value, error)

    def _no_session(self, call: Call) -> LockdError:
        why = self.connector.error
        if call.kind == "acquire" and not call.tries and call.end <= now():
            e: LockdError = TimedOut()
            e.__cause__ = why
            return e
        return unavailable(why or Unavailable("there is no connection yet"))

    def _missing(self, call: Call, cause: Exception | None, unsent: bool) -> LockdError:
        """The error of a request whose answer did not come. If it changes something, the outcome may be unknown."""
        e: LockdError
        if call.kind == "acquire" and not call.tries and isinstance(cause, NoAnswer):
            e = TimedOut() if unsent else TimedOutUnknown()
        elif unsent or not call.changes:
            return unavailable(cause)
        else:
            e = OutcomeUnknown()
        e.__cause__ = cause
        return e

    def changed_locked(self) -> None:
        """Looks whether calls that wait for a session can go on, or have to fail."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        why, busy = self.connector.error, self.connector.busy
        for call in waiting:
            call.placeless = False
            if self.closed:
                call.settle(error=ClientClosed())
            elif call.until <= now():
                call.settle(error=self._no_session(call))
            elif self.open and self.session is not None and self.session.submit(call):
                pass
            elif not self.open and why is not None and (not busy or not call.patient):
                call.settle(error=unavailable(why))
            else:
                call.placeless = True
                self._waiting.append(call)
        if self._waiting:
            self.connector.begin_locked()

    def wake_locked(self, wake: Callable[[], object]) -> None:
        """Has somebody woken: at once, or when the reader has done with the message at hand, and has let go of the
        lock, which all whom it wakes want."""
        if self.woken is None:
            wake()
        else:
            self.woken.append(wake)

    # The session and its streams.

    def stream_over_locked(self, st: Stream, cause: LockdError) -> None:
        """Takes the session off a stream that ended. It goes on in another one, unless the end of the stream was its
        end."""
        s = st.session
        s.stream = None
        self.connector.count_locked(st)
        if not s.resumable or not self._broke(st, cause):
            self.end_session_locked(s, cause)
            return
        self.status_locked("INTERRUPTED", error=cause)
        self.move_locked(s, closed=True)

    def _broke(self, st: Stream, cause: LockdError) -> bool:
        """Whether a stream ended for a reason that leaves the session what it is."""
        if isinstance(cause, Superseded):  # perhaps by an attempt of ours that we have not heard of
            return st.session.epoch > st.epoch
        hopeless = isinstance(cause, PERMANENT) and not isinstance(cause, Unauthenticated)
        ends = (ClientClosed, SessionSilent, Backlog, SessionExpired, QuotaReached, ProtocolError)
        return not (self.settings.release_on_disconnect or hopeless or isinstance(cause, ends))

    def end_session_locked(self, s: Session, cause: LockdError) -> None:
        """Ends a session that is on no stream: all its locks are lost, all its calls unanswered. Another one is opened,
        unless the client is closed."""
        if s.over:
            return
        s.said = isinstance(cause, Ended)
        current = self.session is s and not self.closed
        if current:
            self.session, self.open = None, False
        s.finish(cause)
        self.decided.notify_all()
        if current:
            self.status_locked("DISCONNECTED", error=cause)
            self.connector.begin_locked()
        self.changed_locked()

    def move_locked(self, s: Session, *, closed: bool) -> None:
        """Seeks another stream for a session. If closed is set the session takes no new requests until then."""
        if self.session is not s or self.closed:
            return
        self.connector.elsewhere_locked(s)
        self.connector.begin_locked()
        if closed and self.open:
            self.open = False

    def draining_locked(self, st: Stream, within: float) -> None:
        """Has a session go on at another replica."""
        self.status_locked("DRAINING")
        if st.epoch > 1:  # perhaps each stream is to be left again, as long as its token is about to expire
            self.connector.count_locked(st)
        pause = self.connector.drain_pause(within)
        self.timers.at_locked(now() + pause, lambda: self.move_locked(st.session, closed=False))

    # What the user is told.

    def status_locked(self, state: str, **more: Any) -> None:
        """Has the user told."""
        if self.settings.on_status is None:
            return
        full = len(self._news) == _MOST_NEWS  # then the oldest is passed over
        self._news.append(Status(state, ttl=self.settings.session_ttl or 0, **more))
        if not full:
            self.tell_locked(self._tell_news)

    def _tell_news(self) -> None:
        with self.mu:
            news = self._news.popleft() if self._news else None
        if news is not None and self.settings.on_status is not None:
            self.settings.on_status(news)

    def tell_locked(self, call: Callable[..., object], *args: Any) -> None:
        """Has a function of the user called, by a thread that ends when there is nothing more to tell; in order. It is
        one thread for all TTLs: the lock of a parent comes after those of its children."""
        if self._parent is not None:
            with self._parent.mu:
                self._parent.tell_locked(call, *args)
            return
        self._untold.append((call, args))
        self.timers.at_locked(now(), self._tell)

    def _tell(self) -> None:
        """Is called by the thread of the timers."""
        if self._untold and not self._telling:
            self._telling = True
            threading.Thread(target=self._tell_all, name="lockd-callbacks", daemon=True).start()

    def _tell_all(self) -> None:
        while True:
            with self.mu:
                if not self._untold:
                    self._telling = False
                    return
                call, args = self._untold.popleft()
            try:
                call(*args)
            except Exception:
                log.exception("a callback of lockd failed")

    # The end.

    def close(self) -> None:
        """Releases all locks and ends the session, and those of other TTLs, side by side. Waits up to 2 s for the
        server to confirm that, and much shorter if nothing is held. Raises OutcomeUnknown if that does not come. Doing
        it twice is fine."""
        released = [end() for end in self._begin_close()]
        if not all(released):
            raise OutcomeUnknown("the server did not confirm that all is released")

    def _begin_close(self) -> list[Callable[[], bool]]:
        """Begins to release all. Returns what waits for the end, for each session, and says whether all is released."""
        with self.mu:
            first, self.closed = not self.closed, True
            s = self.session
            self.watches.end_all()
            self.changed_locked()
            self.connector.end_locked()
            streams = [st for st in (s.stream, s.parked) if st is not None] if s is not None else []
            left = self._leave(s) if s is not None and first else None
        ends = [functools.partial(self._end_close, s, streams, left)]
        return ends + [end for other, _ in self._of_ttl.values() for end in other._begin_close()]

    def _end_close(self, s: Session | None, streams: list[Stream], left: Callable[[], bool] | None) -> bool:
        with self.mu:
            released = left is None or left()
            self.timers.end_locked()
            if s is not None and not s.over:
                for st in streams:
                    st.cancel(ClientClosed())
        joins = [self.connector.join, self.timers.join, *(st.join for st in streams)]
        for join in joins:
            join()
        return released

    def _leave(self, s: Session) -> Callable[[], bool]:
        """Ends all locks and says Goodbye. Returns what waits for the end of the session, with the lock held, and says
        whether all is released."""
        s.leaving = True
        busy = bool(s.holds.by_key or s.pending or s.queue)
        s.finish_grants(ClientClosed())
        s.rouse()
        if s.stream is None and s.parked is None:  # nobody to say it to
            self.end_session_locked(s, ClientClosed())
        end = now() + (_CLOSE_TIMEOUT if busy else _CLOSE_TIMEOUT / 10)

        def wait() -> bool:
            while not s.over and (left := end - now()) > 0:
                self.decided.wait(left)
            return not busy or s.said

        return wait

    def forked(self) -> None:
        """Makes it new in a child process, which holds nothing: what was is its parent's."""
        self.pid = os.getpid()
        _fork.keep(dict(self.__dict__))
        if self.session is not None:
            for h in self.session.holds.by_key.values():
                for g in h.grants:
                    g.cause = LockLost(h.key[0], "FORKED")
                    g.listeners = None
        closed = self.closed
        self._reset()
        self.closed = closed


def unavailable(error: Exception | None) -> LockdError:
    """Makes sure that an error is Unavailable, unless waiting will not help."""
    if isinstance(error, (*PERMANENT, Unavailable)):
        return error
    e = Unavailable(f"the lock service cannot be reached: {error}" if error is not None else "")
    e.__cause__ = error
    return e
