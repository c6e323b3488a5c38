"""How a client connects, and has its session go on elsewhere."""

from __future__ import annotations

import logging
import random
import threading
from typing import TYPE_CHECKING, Any

import grpc

from lockd.errors import (
    PERMANENT,
    ClientClosed,
    LockdError,
    ProtocolError,
    SessionExpired,
    Superseded,
    Unauthenticated,
    Unavailable,
    of_rpc,
)
from lockd.v1 import session_service_pb2_grpc as rpc

from ._call import SessionOver
from ._clock import NEVER, now
from ._resume import Bid, attach
from ._session import Session
from ._stream import Stream

if TYPE_CHECKING:
    from ._engine import Engine

log = logging.getLogger("lockd")

# An attempt takes a third of the session TTL at most, within these bounds: a replica that has many sessions to take
# does all of it again for the next attempt.
_MIN_ATTEMPT, _MAX_ATTEMPT = 1.0, 30.0
_MIN_BACKOFF, _MAX_BACKOFF = 0.05, 3.0


class Connector:
    """Tries all addresses until one is reached, in a thread that is there while there is something to try."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # The engine's lock guards these.
        self.busy = False
        self.error: LockdError | None = None  # of the last attempt
        self._failures = 0  # attempts or short streams in a row
        self._bears = 0.0  # until when refusals as Unauthenticated are borne
        self._thread: threading.Thread | None = None
        self._trying: Stream | None = None
        self._ended = threading.Event()
        # These are its thread's own while there is one.
        self._at = 0  # which target is tried first
        self._unreached = 0  # attempts in a row whose connection took too long

    def begin_locked(self) -> None:
        """Begins to connect, unless that is going on."""
        if not self.busy and not self._engine.closed:
            self.error = None
            self._engine.timers.at_locked(now(), self._start)

    def _start(self) -> None:
        """Is called by the thread of the timers."""
        if self.busy or self._engine.closed:
            return
        self.busy = True
        self._thread = threading.Thread(target=self._run, name="lockd-connector", daemon=True)
        self._thread.start()

    def end_locked(self) -> None:
        """Has it end soon."""
        self._ended.set()
        if self._trying is not None:
            self._trying.cancel(ClientClosed())

    def join(self) -> None:
        """Waits for its end."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def elsewhere_locked(self, s: Session) -> None:
        """Has it begin at any other address than the session is at: those who leave a replica together are to spread
        over the others."""
        n = len(self._engine.settings.targets)
        if n > 1 and not self.busy:
            self._at = (s.at + 1 + random.randrange(n - 1)) % n

    def drain_pause(self, within: float) -> float:
        """How long to stay at a replica that is about to stop. If there is only one address, a part of the time that
        the server gives: others come from there, too."""
        return random.uniform(0, within / 4) if len(self._engine.settings.targets) == 1 else 0.0

    def count_locked(self, st: Stream) -> None:
        """Counts short streams in a row. After another one connecting begins without a pause."""
        self._failures = 0 if now() - st.beats.opened > st.interval else self._failures + 1

    def _run(self) -> None:
        engine = self._engine
        while not self._ended.wait(self._pause()):
            with engine.mu:
                s = engine.session  # is to go on, or None
                if s is not None and (not s.resumable or (engine.open and not s.displaced)):
                    self.busy = False  # nobody wants another stream
                    return
            st, error = self._try(s)
            with engine.mu:
                self._trying = None
                if self._tried_locked(s, st, error):
                    return
        with engine.mu:
            self.busy = False

    def _pause(self) -> float:
        """Grows with each failure. The randomness keeps the clients of a restarted server from coming all at once."""
        with self._engine.mu:
            if self._failures == 0:
                return 0.0
            d = min(_MIN_BACKOFF * float(1 << min(self._failures - 1, 10)), _MAX_BACKOFF)
            s = self._engine.session
            if s is not None and s.resumable:  # its leases end
                d = min(d, max(s.ttl / 12, _MIN_BACKOFF))
            return d / 2 + random.uniform(0, d / 2)

    def _try(self, s: Session | None) -> tuple[Stream | None, LockdError]:
        """One attempt at each address until one succeeds, or the session that is to go on has ended."""
        failed: LockdError | None = None
        targets = self._engine.settings.targets
        for _ in targets:
            try:
                return self._try_at(self._at, s), Unavailable()
            except LockdError as e:
                error = e
            except (OSError, ValueError) as e:  # a file cannot be read
                error = Unavailable(str(e))
            except Exception as e:  # a mistake of ours must not leave callers that wait for a connection for ever
                log.exception("opening a session failed")
                error = ProtocolError(str(e))
            self._at = (self._at + 1) % len(targets)
            gone = s is not None and isinstance(error, SessionExpired | Superseded)
            if failed is None or isinstance(failed, PERMANENT) or gone:
                failed = error
            if gone or isinstance(error, SessionOver) or self._ended.is_set():
                break
        return None, failed or Unavailable()

    def _try_at(self, at: int, s: Session | None) -> Stream:
        engine = self._engine
        target = engine.settings.targets[at]
        channel, metadata = engine.settings.channel(target), engine.settings.metadata(target)
        st = Stream(s or Session(engine), at, channel)
        with engine.mu:
            self._trying = st
        try:
            self._begin(st, target, metadata)
        except BaseException:
            with engine.mu:
                if st.session.parked is not None:  # the session goes on where it was, if it was anywhere
                    st.session.stream, st.session.parked = st.session.parked, None
                    st.session.stream.rouse(always=True)
                    engine.decided.notify_all()
                st.leave()
            channel.close()
            raise
        return st

    def _begin(self, st: Stream, target: str, metadata: list[tuple[str, str]]) -> None:
        """Has a session begin, or go on, in a stream. It connects first, because a session that is on another stream
        stands still during a bid. A server that does not even connect is given up after a third of the time of an
        attempt; that doubles with each attempt that it ended."""
        engine, s = self._engine, st.session
        within = min(_MAX_ATTEMPT, max((s.ttl or _MAX_ATTEMPT) / 3, _MIN_ATTEMPT))
        self._reach(st.channel, metadata, target, min(within / 3 * 2 ** min(self._unreached, 2), within))
        with engine.mu:
            if not s.resumable or self._ended.is_set():
                raise SessionOver()
            bid = Bid(s)
            engine.timers.at_locked(now() + within, lambda: self._give_up(st))
        opened = st.open(bid, engine.settings.wishes(), metadata)
        with engine.mu:
            self._trying = None
            if not attach(s, st, bid, opened):
                raise SessionOver()

    def _give_up(self, st: Stream) -> None:
        if self._trying is st:
            st.cancel(Unavailable("opening the session took too long"))

    def _reach(self, channel: Any, metadata: list[tuple[str, str]], target: str, within: float) -> None:
        """Waits until a channel is connected. gRPC tells why it cannot be only to a call."""
        known = threading.Event()
        states: list[grpc.ChannelConnectivity] = []

        def changed(state: grpc.ChannelConnectivity) -> None:
            if state in (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE):
                states.append(state)
                known.set()

        channel.subscribe(changed, try_to_connect=True)
        end = now() + within
        try:
            while not known.wait(0.1) and now() < end and not self._ended.is_set():
                pass
        finally:
            channel.unsubscribe(changed)
        if self._ended.is_set():
            raise ClientClosed()
        if not states:
            self._unreached += 1
            raise Unavailable(f"{target}: connecting took too long")
        if states[0] is not grpc.ChannelConnectivity.READY:
            try:
                next(rpc.SessionServiceStub(channel).Session(iter(()), metadata=metadata))
            except StopIteration:
                pass
            except grpc.RpcError as e:
                raise of_rpc(e) from None
            raise Unavailable(f"{target} cannot be reached")

    def _tried_locked(self, s: Session | None, st: Stream | None, error: LockdError) -> bool:
        """Notes what became of an attempt, and says whether it was the last one. A session that nobody takes, and that
        is on no stream, is over; then a new one is opened at once."""
        engine = self._engine
        if st is not None:
            self._connected_locked(st)
            return True
        if engine.closed:
            self.busy = False
            return True
        if isinstance(error, SessionOver):  # meanwhile
            return False
        last = isinstance(error, PERMANENT) and not self._bears_locked(s, error)
        if s is not None and s.stream is None and (isinstance(error, SessionExpired | Superseded) or last):
            self._failures = 0
            engine.end_session_locked(s, error)
            return False
        if s is not None and s.stream is not None:
            s.stream.stuck = True
            s.leave_if_idle()
        self.error = error
        self._failures += 1
        self.busy = not last
        if last and engine.session is None:  # nobody connects any more who would watch again
            engine.watches.end_all(error)
        engine.changed_locked()
        return last

    def _bears_locked(self, s: Session | None, error: LockdError) -> bool:
        """Whether to go on trying although the server does not know who this is: while locks are held, and for the time
        of an answer after the first such refusal since there was a session. Credentials are often renewed a moment
        later, and files are read again. Those that never were good are refused at once."""
        if not isinstance(error, Unauthenticated):
            return False
        self._bears = min(self._bears, now() + self._engine.settings.answer_timeout)
        return now() < self._bears or (s is not None and bool(s.holds.by_key))

    def _connected_locked(self, st: Stream) -> None:
        """Notes a session that has a stream."""
        engine, s = self._engine, st.session
        engine.status_locked("CONNECTED", session=s.id)
        self.busy, self._unreached, self._bears = False, 0, NEVER
        st.start()
        if not engine.closed:
            engine.session, engine.open = s, True
            engine.watches.again(s)
        elif engine.session is not s:  # else close says Goodbye
            st.cancel(ClientClosed())
        engine.changed_locked()
