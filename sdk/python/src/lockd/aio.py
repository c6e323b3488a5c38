"""The face of asyncio: the same as `lockd`, with `async with` and `await`.

It stands on the same engine, whose threads keep the session: a loop that is busy delays answers, but loses no lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from lockd.errors import LockdError, LockLost, NotHeld

from . import _check, _requests
from ._call import Call
from ._clock import NEVER, now
from ._engine import Engine
from ._held import Ending, OneHeld
from ._hold import Grant, Unlocked
from ._mail import mail_of
from ._make import ClientOptions, engine_of
from ._requests import HeldInfo, Info, Item, LockOptions
from ._watches import Feed, Unlocked as UnlockedEvent

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .election import AsyncElection

log = logging.getLogger("lockd")
_P = ParamSpec("_P")
_R = TypeVar("_R")
_H = TypeVar("_H", bound="Held | HeldAll")


class _Inbox:
    """What other threads tell a task about a loss, or a watched name."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: list[bool] = []
        self._news: asyncio.Future[None] | None = None

    def put(self) -> None:
        """From any thread. A loop that is closed has nobody to tell."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._put, True)

    def _put(self, item: bool) -> None:
        self._items.append(item)
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def get(self, end: float) -> bool:
        """Waits for the next time that something is told; False if another time comes first."""
        if not self._items:
            self._news = self._loop.create_future()
            late = None if end == NEVER else self._loop.call_later(max(end - now(), 0), self._put, False)
            try:
                await self._news
            finally:
                if late is not None:
                    late.cancel()
        return self._items.pop(0)


async def run(engine: Engine, call: Call) -> Call:
    """Makes a request and waits until it is settled. A task that is cancelled leaves nothing behind."""
    return await mail_of(engine).run(call)


class Lost:
    """An event that is set when a lock, or any of several, is lost, but not by unlock."""

    def __init__(self, grants: Sequence[Grant]) -> None:
        self._grants = grants

    def is_set(self) -> bool:
        """Whether it was lost. It reads the clock."""
        return any(isinstance(g.err(), LockLost) for g in self._grants)

    async def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is lost, all of it was unlocked, or a time in seconds has passed. Says whether it was lost."""
        inbox = _Inbox()
        end = _check.end_of(timeout)
        tell = inbox.put
        for g in self._grants:
            g.listen(tell)
        try:
            while not self.is_set() and any(g.cause is None for g in self._grants) and now() < end:
                await inbox.get(end)
        finally:
            for g in self._grants:
                g.unlisten(tell)
        return self.is_set()


class _Async(Ending):
    """What a Held and a HeldAll share."""

    @property
    def lost(self) -> Lost:
        """An event that is set when it is lost: `is_set()`, `await wait(timeout)`."""
        return Lost(self._grants)

    def on_lost(self, call: Callable[[LockLost], object]) -> None:
        """Has a function called by the running loop when it is lost, once for each lock, at once if that has been."""
        _check.function("call", call)
        loop = asyncio.get_running_loop()

        def tell(loss: LockLost) -> None:
            with contextlib.suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(call, loss)

        self._when_lost(tell)


class Held(OneHeld, _Async):
    """A lock that is held, as in `lockd.Held`, with methods to await. Cancelling one of them gives up waiting for the
    answer; a release that has begun goes on."""

    async def unlock(self) -> None:
        """Releases it. It has ended here, and the release is on its way, before anything is awaited."""
        await self._unlocked(_requests.unlock(self._grants[0]))

    async def _unlocked(self, call: Call) -> None:
        mail = mail_of(self._engine)
        call.tell = mail.tell
        try:
            await mail.settled(call)
        except BaseException:
            self._grants[0].release = call
            raise
        _requests.unlocked(self._grants[0], call)

    async def extend(self, lease: float) -> None:
        """Has a fixed lease end no earlier than so many seconds from now."""
        await self._change(_requests.extend(self._grants[0], lease, if_fixed=True))

    async def make_fixed(self, lease: float) -> None:
        """Makes the lease fixed, to end no earlier than so many seconds from now."""
        await self._change(_requests.extend(self._grants[0], lease))

    async def make_auto(self) -> None:
        """Has the lease renewed for as long as this client is heard."""
        await self._change(_requests.extend(self._grants[0], None))

    async def shorten(self, lease: float) -> None:
        """Makes the lease fixed, to end so many seconds from now, also if it would have ended later."""
        await self._change(_requests.extend(self._grants[0], lease, may_shorten=True))

    async def keep_permits(self, n: int) -> int:
        """Releases all permits of a semaphore but n, and returns how many are left."""
        return int(await self._change(_requests.keep_permits(self._grants[0], n)))

    async def _change(self, call: Call) -> Any:
        return _requests.changed(self._grants[0], await run(self._engine, call))


class HeldAll(_Async):
    """Locks that were granted together, as in `lockd.HeldAll`."""

    def __init__(self, engine: Engine, grants: Sequence[Grant]) -> None:
        super().__init__(engine, grants)
        self.all = [Held(engine, [g]) for g in grants]

    async def unlock(self) -> None:
        """Releases all, at once, before anything is awaited. The first error is raised."""
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
                await held._unlocked(call)
            except LockdError as e:
                errors.append(e)
        if errors:
            raise errors[0]


class Lock(Generic[_H]):
    """A lock as it will be asked for. Use it in `async with`, again and again but not twice at a time, or await
    `acquire`."""

    def __init__(
        self, client: Client, make: Callable[[Engine, list[Grant]], _H], asked: _requests.Asked, o: LockOptions
    ) -> None:
        self._client, self._make, self._asked, self._options = client, make, asked, o
        self._held: _H | None = None

    async def acquire(self) -> _H:
        """Waits until the lock is held, as `lockd.Lock.acquire` does. A task that is cancelled leaves no hold and no
        place in a queue."""
        engine = self._client._engine
        call = _requests.acquire(engine, self._asked, self._options)
        try:
            await mail_of(engine).run(call, self._options)
            return self._make(engine, call.result())
        except BaseException:  # also between the grant and the return
            engine.abandon(call)
            raise

    async def __aenter__(self) -> _H:
        if self._held is not None:
            raise RuntimeError("this lock is in use by another `async with`; make one for each")
        self._held = await self.acquire()
        return self._held

    async def __aexit__(
        self, _: type[BaseException] | None, body: BaseException | None, __: TracebackType | None
    ) -> None:
        held, self._held = self._held, None
        if held is None or held._released():  # the body did it
            return
        try:
            await held.unlock()
        except LockdError as e:
            if (loss := _requests.leaving(e, body, self._options.get("loss_raises", True))) is not None:
                raise loss from None
            # Who keeps what is logged must not keep the client, which the error leads to.
            level = logging.DEBUG if isinstance(e, LockLost | NotHeld) else logging.WARNING
            log.log(level, "on leaving a lock: %s", str(e))


class Watch(AsyncIterator[UnlockedEvent]):
    """Tells of each end of a hold of a name, as `lockd.Watch` does. Use it in `async with` and iterate over it."""

    def __init__(self, engine: Engine, name: str) -> None:
        _check.name("name", name)
        self._engine, self._name = engine, name
        self._inbox = _Inbox()
        self._feed = Feed(name, self._inbox.put)

    async def begin(self) -> Watch:
        """Waits until the server agrees."""
        call = _requests.watch(self._engine, self._name)
        call.each = lambda: self._engine.watches.add(self._feed)
        try:
            (await run(self._engine, call)).result()
        except BaseException:
            self.close()
            raise
        return self

    async def next(self, timeout: float | None = None) -> UnlockedEvent | None:
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
            if not await self._inbox.get(end):
                return None

    async def __anext__(self) -> UnlockedEvent:
        if (event := await self.next()) is None:
            raise StopAsyncIteration
        return event

    @property
    def closed(self) -> bool:
        """Whether nothing follows."""
        return self._feed.over

    def close(self) -> None:
        """Ends it. Doing it twice is fine."""
        with self._engine.mu:
            self._engine.watches.remove(self._feed)

    async def __aenter__(self) -> Watch:
        return await self.begin()

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Client:
    """One session with lockd, as `lockd.Client`, for asyncio. It may be used by several loops."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def lock(self, name: str, **options: Unpack[LockOptions]) -> Lock[Held]:
        """A lock, for `async with`: nothing is asked yet."""
        return Lock(self, Held, _requests.Asked.one(name, options), options)

    def lock_all(self, items: Iterable[str | Item], **options: Unpack[LockOptions]) -> Lock[HeldAll]:
        """Several locks, all or none, for `async with`."""
        return Lock(self, HeldAll, _requests.Asked(items, options), options)

    def locked(
        self, name: str | Callable[_P, str], **options: Unpack[LockOptions]
    ) -> Callable[[Callable[_P, Awaitable[_R]]], Callable[_P, Awaitable[_R]]]:
        """Has an async function run under a lock. The name may be a function of its arguments."""
        _requests.check_options(options)

        def decorate(f: Callable[_P, Awaitable[_R]]) -> Callable[_P, Awaitable[_R]]:
            @functools.wraps(f)
            async def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
                async with self.lock(name(*args, **kwargs) if callable(name) else name, **options):
                    return await f(*args, **kwargs)

            return wrapped

        return decorate

    def election(self, name: str) -> AsyncElection:
        """An election: whoever holds the lock of that name leads."""
        from .election import AsyncElection  # noqa: PLC0415 (it is made of this)

        return AsyncElection(self, name)

    async def look(self, name: str) -> Info:
        """What is known of a name."""
        return _requests.info((await run(self._engine, _requests.look(self._engine, name))).result())

    async def holds(self, prefix: str = "") -> AsyncIterator[HeldInfo]:
        """Goes through what the server says that this client holds, of names that begin with prefix."""
        _check.text("INVALID_NAME", "prefix", prefix)
        page, more = "", self._engine.session is not None
        while more:
            answer = (await run(self._engine, _requests.list_holds(self._engine, prefix, page))).result()
            for held in _requests.held_infos(answer):
                yield held
            page, more = _requests.next_page(answer, page)

    async def set_limit(self, name: str, limit: int) -> int:
        """Sets how many permits a semaphore has, and returns how many it had, 0 if there was no limit."""
        return int((await run(self._engine, _requests.set_limit(self._engine, name, limit))).result().previous)

    def watch(self, name: str) -> Watch:
        """Tells of each end of a hold of a name, for `async with`."""
        return Watch(self._engine, name)

    def with_ttl(self, ttl: float) -> Client:
        """A client like this one of another session TTL, as `lockd.Client.with_ttl`. Nothing is awaited."""
        return self._engine.with_ttl(ttl, Client)

    async def close(self) -> None:
        """Releases all locks and ends the session, as `lockd.Client.close`, in a thread of its own. Being cancelled
        does not stop it."""
        await asyncio.shield(asyncio.to_thread(self._engine.close))

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, _: object, body: BaseException | None, __: object) -> None:
        try:
            await self.close()
        except LockdError as e:
            log.warning("on closing a client: %s", str(e))


def connect(addresses: str | Sequence[str], **options: Unpack[ClientOptions]) -> Client:
    """Makes a client, as `lockd.connect` does. Nothing is awaited: the first use connects."""
    return Client(engine_of(addresses, options))
