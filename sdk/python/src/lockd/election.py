"""Elections on ordinary locks: whoever holds the lock leads.

A deposed leader may not know yet that it is: whatever it writes must carry the fence of its term, and what is written
to must refuse smaller ones than it has seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from lockd.errors import ClientClosed

from . import _blocking, aio
from ._requests import Info, LockOptions

# While nobody leads, what is known is asked for with pauses that grow: that a lock is taken is not pushed, that it ends
# is.
_SHORTEST, _LONGEST = 0.05, 1.0
_LOOK_AGAIN = 10.0  # while somebody leads


@dataclass(frozen=True)
class Leader:
    """Who leads."""

    name: str
    """The id it campaigned with. Empty: nobody leads."""
    annotation: str = ""
    """Where the replica that answered knows it."""
    fence: int = 0
    """Of its term."""


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


def _leader(info: Info) -> Leader:
    if not info.held:
        return Leader("")
    # Redis knows the owner as <session id>:<holder>#<request id>.
    holder = info.held_by.partition(":")[2].rpartition("#")[0]
    return Leader(holder or info.client or info.held_by, info.annotation, info.fence)


def _options(id: str, annotation: str, wait: float | None) -> LockOptions:
    return {"holder": id, "annotation": annotation, "wait": wait}


class Election:
    """Candidates, of whom one leads at a time."""

    def __init__(self, client: _blocking.Client, name: str) -> None:
        self._client, self._name = client, name

    def campaign(self, id: str = "", *, annotation: str = "", wait: float | None = None) -> _blocking.Lock[Term]:
        """A candidate, for `with`: it waits until it leads, and leaving the block resigns. `id` is how others see it,
        one for each candidate: one that leads with the same id of the same client shares its term."""
        return _blocking.Lock(self._client, Term, [self._name], _options(id, annotation, wait))

    def leader(self) -> Leader:
        """Who leads now."""
        return _leader(self._client.look(self._name))

    def observe(self) -> Iterator[Leader]:
        """Tells who leads: at once, and whenever that changes. It ends when the client is closed."""
        with contextlib.suppress(ClientClosed), self._client.watch(self._name) as ends:
            last, pause = None, _SHORTEST
            while True:
                now = self.leader()
                if now != last:
                    last, pause = now, _SHORTEST
                    yield now
                ends.next(timeout=_LOOK_AGAIN if now.name else pause)
                pause = min(pause * 2, _LONGEST)


class AsyncElection:
    """Candidates, of whom one leads at a time, as `Election` for asyncio."""

    def __init__(self, client: aio.Client, name: str) -> None:
        self._client, self._name = client, name

    def campaign(self, id: str = "", *, annotation: str = "", wait: float | None = None) -> aio.Lock[AsyncTerm]:
        """A candidate, for `async with`: it waits until it leads, and leaving the block resigns."""
        return aio.Lock(self._client, AsyncTerm, [self._name], _options(id, annotation, wait))

    async def leader(self) -> Leader:
        """Who leads now."""
        return _leader(await self._client.look(self._name))

    async def observe(self) -> AsyncIterator[Leader]:
        """Tells who leads: at once, and whenever that changes. It ends when the client is closed."""
        with contextlib.suppress(ClientClosed):
            async with self._client.watch(self._name) as ends:
                last, pause = None, _SHORTEST
                while True:
                    now = await self.leader()
                    if now != last:
                        last, pause = now, _SHORTEST
                        yield now
                    await ends.next(timeout=_LOOK_AGAIN if now.name else pause)
                    pause = min(pause * 2, _LONGEST)
