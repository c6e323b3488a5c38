"""The blocking face: clients, locks and watches for threads."""

from __future__ import annotations

import functools
import logging
import queue
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from lockd.errors import LockdError, LockLost, NotHeld

from . import _check, _requests
from ._call import Call
from ._clock import now
from ._engine import Engine
from ._held import Ending, OneHeld
from ._hold import Grant, Unlocked
from ._requests import HeldInfo, Info, Item, LockOptions
from ._watches import Feed, Unlocked as UnlockedEvent

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .election import Election

log = logging.getLogger("lockd")
_LOOK_UP = 0.5  # seconds
_P = ParamSpec("_P")
_R = TypeVar("_R")
_H = TypeVar("_H", bound="Held | HeldAll")


def run(engine: Engine, call: Call, o: LockOptions | None = None) -> Call:
    """Makes a request and waits until it is settled. A caller that is interrupted leaves nothing behind."""
    inbox = _inbox(engine, call)
    try:
        engine.submit(call)
        await_settled(engine, call, inbox, o)
    except BaseException:
        engine.abandon(call)
        raise
    return call


def _inbox(engine: Engine, call: Call) -> queue.SimpleQueue[None]:
    """Where the caller of a call is woken."""
    inbox: queue.SimpleQueue[None] = queue.SimpleQueue()
    wake = functools.partial(inbox.put, None)
    call.tell = lambda _: engine.wake_locked(wake)
    return inbox


def _get(inbox: queue.SimpleQueue[_R], end: float) -> _R:
    """Waits for the next item until a time; then it raises queue.Empty. It looks up now and then: Python may miss a
    signal that comes just before it blocks."""
    while True:
        left = max(end - now(), 0)
        try:
            return inbox.get(timeout=min(left, _LOOK_UP))
        except queue.Empty:
            if left <= _LOOK_UP:
                raise


def await_settled(engine: Engine, call: Call, inbox: queue.SimpleQueue[None], o: LockOptions | None = None) -> None:
    """Waits until a call is settled or late, and tells the news meanwhile."""
    while not call.settled:
        bound = engine.bound(call)
        try:
            _get(inbox, bound)
        except queue.Empty:
            engine.late(call)
            if call.frees_all and not call.settled:
                return
            continue
        _requests.tell(engine, call, o)


class Lost:
    """An event that is set when a lock, or any of several, is lost, but not by unlock."""

    def __init__(self, grants: Sequence[Grant]) -> None:
        self._grants = grants

    def is_set(self) -> bool:
        """Whether it was lost. It reads the clock."""
        return any(isinstance(g.err(), LockLost) for g in self._grants)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is lost, all of it was unlocked, or a time in seconds has passed. Says whether it was lost."""
        ends: queue.SimpleQueue[None] = queue.SimpleQueue()
        end = _check.end_of(timeout)

        def tell() -> None:
            ends.put(None)

        for g in self._grants:
            g.listen(tell)
        try:
            while not self.is_set() and any(g.cause is None for g in self._grants):
                _get(ends, end)
        except queue.Empty:
            pass
        finally:
            for g in self._grants:
                g.unlisten(tell)
        return self.is_set()


class _Blocking(Ending):
    """What a Held and a HeldAll share."""

    @property
    def lost(self) -> Lost:
        """An event that is set when it is lost: `is_set()`, `wait(timeout)`."""
        return Lost(self._grants)

    def on_lost(self, call: Callable[[LockLost], object]) -> None:
        """Has a function called when it is lost, once for each lock, at once if that has been. A thread of the client
        calls it, one function after the other: it should return soon. It may use the client."""
        _check.function("call", call)
        self._when_lost(lambda loss: self._engine.tell_locked(call, loss))


class Held(OneHeld, _Blocking):
    """A lock that is held. It ends by `unlock`, or by being lost, once and for good. All methods may be used from any
    thread: it belongs to no thread."""

    def unlock(self) -> None:
        """Releases it. It has ended here before the server is asked.

        Raises LockLost if it had been lost, NotHeld if it was unlocked before or the server knows of a loss that had
        not arrived yet, and OutcomeUnknown if the answer did not come: the release goes on by itself, and the name is
        free at the latest when the lease ends. A later unlock waits for the same answer again.
        """
        self._unlocked(_requests.unlock(self._grants[0]))

    def _unlocked(self, call: Call) -> None:
        inbox = _inbox(self._engine, call)
        try:
            await_settled(self._engine, call, inbox)
        except BaseException:
            self._grants[0].release = call
            raise
        _requests.unlocked(self._grants[0], call)

    def extend(self, lease: float) -> None:
        """Has a fixed lease end no earlier than so many seconds from now. Raises AutoLease if it is renewed anyway, and
        OutcomeUnknown if the answer did not come: the old deadline counts. Doing it twice is fine."""
        self._change(_requests.extend(self._grants[0], lease, if_fixed=True))

    def make_fixed(self, lease: float) -> None:
        """Makes the lease fixed, to end no earlier than so many seconds from now: it is not renewed any more. With
        OutcomeUnknown the deadline that was known counts. Doing it twice is fine."""
        self._change(_requests.extend(self._grants[0], lease))

    def make_auto(self) -> None:
        """Has the lease renewed for as long as this client is heard. A longer remaining time is kept. With
        OutcomeUnknown the old deadline counts. Doing it twice is fine."""
        self._change(_requests.extend(self._grants[0], None))

    def shorten(self, lease: float) -> None:
        """Makes the lease fixed, to end so many seconds from now, also if it would have ended later. The deadline moves
        before the server is asked; with OutcomeUnknown it counts here, and the name may stay taken until the later one.
        Doing it twice is fine."""
        self._change(_requests.extend(self._grants[0], lease, may_shorten=True))

    def keep_permits(self, n: int) -> int:
        """Releases all permits of a semaphore but n, at least 1, and returns how many are left. With OutcomeUnknown it
        may have been done. Doing it twice is fine."""
        return int(self._change(_requests.keep_permits(self._grants[0], n)))

    def _change(self, call: Call) -> Any:
        return _requests.changed(self._grants[0], run(self._engine, call))


class HeldAll(_Blocking):
    """Locks that were granted together. From then on each lives by itself. `all` are the locks, in the order in which
    they were asked for."""

    def __init__(self, engine: Engine, grants: Sequence[Grant]) -> None:
        super().__init__(engine, grants)
        self.all = [Held(engine, [g]) for g in grants]

    def unlock(self) -> None:
        """Releases all, at once. One that cannot be released does not keep the others; the first error is raised. Locks
        that were unlocked before are passed over, so it may be repeated."""
        errors: list[Exception] = []
        releases: list[tuple[Held, Call]] = []
        for held, g in zip(self.all, self._grants, strict=True):
            try:
                if not isinstance(g.err(), Unlocked) or g.release is not None:
                    releases.append((held, _requests.unlock(g)))
            except LockdError as e:
                errors.append(e)
        for held, call in releases:
            try:
                held._unlocked(call)
            except LockdError as e:
                errors.append(e)
        if errors:
            raise errors[0]


class Lock(Generic[_H]):
    """A lock as it will be asked for: nothing is asked yet. Use it in `with`, again and again but not twice at a time,
    or call `acquire`."""

    def __init__(
        self, client: Client, make: Callable[[Engine, list[Grant]], _H], asked: _requests.Asked, o: LockOptions
    ) -> None:
        self._client, self._make, self._asked, self._options = client, make, asked, o
        self._held: _H | None = None

    def acquire(self) -> _H:
        """Waits until the lock is held, and returns it: unlock it yourself.

        Raises LockHeld (a try), TimedOut, DeadlockFound, Unavailable or OutcomeUnknown (a try without an answer), or
        what the server refuses. It outlives interruptions: a request that waits when the connection breaks is made
        again on the next one. A caller that is interrupted (KeyboardInterrupt) leaves no hold and no place in a queue.
        """
        engine = self._client._engine
        call = _requests.acquire(engine, self._asked, self._options)
        try:
            run(engine, call, self._options)
            return self._make(engine, call.result())
        except BaseException:  # also between the grant and the return
            engine.abandon(call)
            raise

    def __enter__(self) -> _H:
        if self._held is not None:
            raise RuntimeError("this lock is in use by another `with`; make one for each")
        self._held = self.acquire()
        return self._held

    def __exit__(self, _: type[BaseException] | None, body: BaseException | None, __: TracebackType | None) -> None:
        held, self._held = self._held, None
        if held is None or held._released():  # the body did it
            return
        try:
            held.unlock()
        except LockdError as e:
            if (loss := _requests.leaving(e, body, self._options.get("loss_raises", True))) is not None:
                raise loss from None
            # Who keeps what is logged must not keep the client, which the error leads to.
            level = logging.DEBUG if isinstance(e, LockLost | NotHeld) else logging.WARNING
            log.log(level, "on leaving a lock: %s", str(e))


class Watch(Iterator[UnlockedEvent]):
    """Tells of each end of a hold of a name, once. Iterate over it, or use `next`; `close` ends it, and so does leaving
    a `with`. A reader that is slow gets several events as one, which counts them. If the server refuses to go on, that
    error is raised after the last event."""

    def __init__(self, engine: Engine, name: str) -> None:
        _check.name("name", name)
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._engine, self._feed = engine, Feed(name, lambda: self._news.put(None))
        call = _requests.watch(engine, name)
        call.each = lambda: engine.watches.add(self._feed)
        try:
            run(engine, call).result()
        except BaseException:
            self.close()
            raise

    def next(self, timeout: float | None = None) -> UnlockedEvent | None:
        """Waits for an event; None if a time in seconds has passed, or nothing follows."""
        end = _check.end_of(timeout)
        while True:
            with self._engine.mu:
                if self._feed.events:
                    return self._feed.events.popleft()
                if self._feed.over:
                    if self._feed.error is not None:
                        raise self._feed.error
                    return None
            try:
                _get(self._news, end)
            except queue.Empty:
                return None

    def __next__(self) -> UnlockedEvent:
        if (event := self.next()) is None:
            raise StopIteration
        return event

    @property
    def closed(self) -> bool:
        """Whether nothing follows."""
        return self._feed.over

    def close(self) -> None:
        """Ends it. Doing it twice is fine."""
        with self._engine.mu:
            self._engine.watches.remove(self._feed)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Client:
    """One session with lockd, for all threads of a process. `connect` makes it. The first use connects, and when the
    stream breaks the session goes on in another one. In a process that was forked it holds nothing, and begins anew."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def lock(self, name: str, **options: Unpack[LockOptions]) -> Lock[Held]:
        """A lock, for `with`: nothing is asked yet."""
        return Lock(self, Held, _requests.Asked.one(name, options), options)

    def lock_all(self, items: Iterable[str | Item], **options: Unpack[LockOptions]) -> Lock[HeldAll]:
        """Several locks, all or none, for `with`. While it waits for one it holds none."""
        return Lock(self, HeldAll, _requests.Asked(items, options), options)

    def locked(
        self, name: str | Callable[_P, str], **options: Unpack[LockOptions]
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
        """Has a function run under a lock. The name may be a function of its arguments."""
        _requests.check_options(options)

        def decorate(f: Callable[_P, _R]) -> Callable[_P, _R]:
            @functools.wraps(f)
            def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
                with self.lock(name(*args, **kwargs) if callable(name) else name, **options):
                    return f(*args, **kwargs)

            return wrapped

        return decorate

    def election(self, name: str) -> Election:
        """An election: whoever holds the lock of that name leads."""
        from .election import Election  # noqa: PLC0415 (it is made of this)

        return Election(self, name)

    def look(self, name: str) -> Info:
        """What is known of a name. Raises Unavailable if the server does not answer in time."""
        return _requests.info(run(self._engine, _requests.look(self._engine, name)).result())

    def holds(self, prefix: str = "") -> Iterator[HeldInfo]:
        """Goes through what the server says that this client holds, of names that begin with prefix, a page at a time.
        What is held all the while comes once. Without a session nothing is held."""
        _check.text("INVALID_NAME", "prefix", prefix)
        page, more = "", self._engine.session is not None
        while more:
            answer = run(self._engine, _requests.list_holds(self._engine, prefix, page)).result()
            yield from _requests.held_infos(answer)
            page, more = _requests.next_page(answer, page)

    def set_limit(self, name: str, limit: int) -> int:
        """Sets how many permits a semaphore has, at least 1, and returns how many it had, 0 if there was no limit. With
        OutcomeUnknown it may have been done. Doing it twice is fine."""
        return int(run(self._engine, _requests.set_limit(self._engine, name, limit)).result().previous)

    def watch(self, name: str) -> Watch:
        """Tells of each end of a hold of a name. For display, caches and the like: to get a lock use `lock`. Raises
        Unavailable if the server does not agree in time."""
        return Watch(self._engine, name)

    def with_ttl(self, ttl: float) -> Client:
        """A client like this one whose locks outlive the last sign of life for another time, in seconds, as
        `session_ttl` has it: for a lock that must be free five seconds after a crash, in a program whose other locks
        survive a pause of a minute. It is a session of its own, with its own connection, heartbeats and holders, so a
        lock of the one is held by somebody else for the other. It is made once for each TTL, shared by all who ask for
        it, and closed with this client. A TTL that the server does not allow is Invalid when it is first used."""
        return self._engine.with_ttl(ttl, Client)

    def close(self) -> None:
        """Releases all locks and ends the session, and those of `with_ttl`. Waits up to 2 s, and much shorter if
        nothing is held; raises OutcomeUnknown if the server does not confirm it. No thread of the client is left. Doing
        it twice is fine."""
        self._engine.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, _: object, body: BaseException | None, __: object) -> None:
        try:
            self.close()
        except LockdError as e:
            log.warning("on closing a client: %s", str(e))
