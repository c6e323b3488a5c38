"""Elections on ordinary locks: whoever holds the lock leads.

A deposed leader may not know yet that it is: whatever it writes must carry the fence of its term, and what is written
to must refuse smaller ones than it has seen. The holder of the lock is ID~NUMBER, as with the other SDKs: so observers
know the ID at every replica, and candidates with the same ID do not lead together.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from lockd.errors import ClientClosed, OutcomeUnknown, StoreFull, TimedOut, Unavailable

from . import _blocking, _check, aio
from ._requests import Asked, Info, LockOptions

_PASSES = (Unavailable, OutcomeUnknown, StoreFull)
"""Ends by itself: what was tried is tried again after a pause, which grows."""
_SHORTEST, _LONGEST = 0.05, 1.0
_MOST_TRUST = 10.0
"""How long an observer believes that who leads still leads, without having asked again."""
_MARK = "~"
_candidates = itertools.count(1)


@dataclass(frozen=True)
class Leader:
    """Who leads."""

    name: str
    """The id it campaigned with, or the owner as Redis knows it if it gave none or did not campaign. Empty: nobody
    leads."""
    annotation: str = ""
    """Where the replica that answered knows it."""
    fence: int = 0
    """Of its term."""
    ttl: float = field(default=0.0, compare=False)
    """How long the term lasts at least, in seconds, unless it resigns."""


class Term(_blocking.Held):
    """A term of a leader: a lock that is held. It ends by `resign`, or when it is lost."""

    def resign(self) -> None:
        """Ends the term: another candidate can lead at once. It is `unlock`."""
        self.unlock()


class AsyncTerm(aio.Held):
    """A term of a leader: a lock that is held. It ends by `resign`, or when it is lost."""

    async def resign(self) -> None:
        """Ends the term: another candidate can lead at once. It is `unlock`."""
        await self.unlock()


class Campaign(_blocking.Lock[Term]):
    """A candidate. In `with` it waits until it leads, and leaving the block resigns."""

    def acquire(self) -> Term:
        """Waits until it leads. While the server or its store cannot be reached it tries again; else it raises what
        `Lock.acquire` does."""
        pauses = _Pauses(self._options)
        while True:
            try:
                return super().acquire()
            except _PASSES as e:
                time.sleep(pauses.after(e))


class AsyncCampaign(aio.Lock[AsyncTerm]):
    """A candidate. In `async with` it waits until it leads, and leaving the block resigns."""

    async def acquire(self) -> AsyncTerm:
        """Waits until it leads, as `Campaign.acquire` does."""
        pauses = _Pauses(self._options)
        while True:
            try:
                return await super().acquire()
            except _PASSES as e:
                await asyncio.sleep(pauses.after(e))


class _Pauses:
    """The pauses of a candidate, and what is left of its wait."""

    def __init__(self, options: LockOptions) -> None:
        self._options, self._pause = options, _SHORTEST
        wait = options.get("wait")
        self._end = None if wait is None else time.monotonic() + wait

    def after(self, error: Exception) -> float:
        """The pause after an error, or raises that if the wait is over."""
        pause = random.uniform(self._pause / 2, self._pause)
        self._pause = min(2 * self._pause, _LONGEST)
        if self._end is not None:
            left = self._end - time.monotonic() - pause
            if left <= 0 or isinstance(error, TimedOut):
                raise error
            self._options["wait"] = left
        return pause


def _options(id: str, annotation: str, wait: float | None) -> LockOptions:
    _check.text("INVALID_HOLDER", "id", id)
    return {"holder": f"{id}{_MARK}{next(_candidates)}", "annotation": annotation, "wait": wait}


def _leader(info: Info) -> Leader:
    if not info.held:
        return Leader("")
    holder = info.held_by.partition(":")[2].rpartition("#")[0]  # <session>:<id>~<number>#<request>
    id, mark, number = holder.rpartition(_MARK)
    campaigns = id and mark and number.isdecimal()
    return Leader(id if campaigns else info.held_by, info.annotation, info.fence, info.ttl)


class _Observer:
    """What an observer was told, and when it looks again. While nobody leads that is soon and then less and less often:
    that a term begins is not pushed, that one ends is."""

    def __init__(self) -> None:
        self._last: Leader | None = None
        self._pause = _SHORTEST

    def news(self, leader: Leader) -> bool:
        """Whether it is another one than before."""
        if self._last is not None and (leader.name, leader.fence) == (self._last.name, self._last.fence):
            return False
        self._last, self._pause = leader, _SHORTEST
        return True

    def wait(self, leader: Leader | None) -> float:
        """How long to wait for a push before looking again."""
        if leader is not None and leader.fence:
            return min(max(leader.ttl, _LONGEST), _MOST_TRUST)
        pause, self._pause = self._pause, min(2 * self._pause, _LONGEST)
        return pause


class Election:
    """Candidates, of whom one leads at a time."""

    def __init__(self, client: _blocking.Client, name: str) -> None:
        _check.name("name", name)
        self._client, self._name = client, name

    def campaign(self, id: str = "", *, annotation: str = "", wait: float | None = None) -> Campaign:
        """A candidate, for `with`. `id` is how observers know it, such as its address. Each is a candidate of its own,
        also with the same id."""
        options = _options(id, annotation, wait)
        return Campaign(self._client, Term, Asked.one(self._name, options), options)

    def leader(self) -> Leader:
        """Who leads now. Raises Unavailable if the server does not answer in time."""
        return _leader(self._client.look(self._name))

    def observe(self) -> Iterator[Leader]:
        """Tells who leads: at once, and whenever that changes. While the server cannot be reached it goes on trying. It
        ends when the client is closed, and raises what the server refuses, such as Forbidden."""
        o = _Observer()
        with contextlib.suppress(ClientClosed), self._client.watch(self._name) as ends:
            while not ends.closed:
                now: Leader | None = None
                with contextlib.suppress(Unavailable):
                    now = self.leader()
                if now is not None and o.news(now):
                    yield now
                ends.next(timeout=o.wait(now))


class AsyncElection:
    """Candidates, of whom one leads at a time, as `Election` for asyncio."""

    def __init__(self, client: aio.Client, name: str) -> None:
        _check.name("name", name)
        self._client, self._name = client, name

    def campaign(self, id: str = "", *, annotation: str = "", wait: float | None = None) -> AsyncCampaign:
        """A candidate, for `async with`."""
        options = _options(id, annotation, wait)
        return AsyncCampaign(self._client, AsyncTerm, Asked.one(self._name, options), options)

    async def leader(self) -> Leader:
        """Who leads now. Raises Unavailable if the server does not answer in time."""
        return _leader(await self._client.look(self._name))

    async def observe(self) -> AsyncIterator[Leader]:
        """Tells who leads, as `Election.observe` does."""
        o = _Observer()
        with contextlib.suppress(ClientClosed):
            async with self._client.watch(self._name) as ends:
                while not ends.closed:
                    now: Leader | None = None
                    with contextlib.suppress(Unavailable):
                        now = await self.leader()
                    if now is not None and o.news(now):
                        yield now
                    await ends.next(timeout=o.wait(now))
