"""What the engine tells the tasks of a loop: one wake-up of the loop for all that one message of the server brings, and
one timer for all who wait."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections import deque

from . import _requests
from ._call import Call
from ._clock import NEVER, now
from ._engine import Engine
from ._requests import LockOptions

_FEW = 64  # bounds that are kept at least, of calls that are settled, too


def mail_of(engine: Engine) -> Mail:
    """The mail of the running loop."""
    loop = asyncio.get_running_loop()
    mail = engine.mails.get(loop)
    if mail is None:
        with engine.mu:
            open_ones = {of: other for of, other in engine.mails.items() if not of.is_closed()}
            mail = open_ones[loop] = Mail(engine, loop)
            engine.mails = open_ones
    return mail


class Mail:
    """For the tasks of one loop."""

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        self._engine, self._loop = engine, loop
        self._told: deque[Call] = deque()
        self._coming = False  # the loop is about to look
        # Of the loop alone.
        self._bounds: list[tuple[float, int, Call]] = []  # a heap, of calls that are settled, too
        self._most = _FEW  # bounds, until those of settled calls are left out
        self._count = itertools.count()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = NEVER

    def tell(self, call: Call) -> None:
        """Is the `tell` of a call: from any thread, with the engine's lock held."""
        self._told.append(call)
        if not self._coming:
            self._coming = True
            self._engine.wake_locked(self._come)

    def _come(self) -> None:
        with contextlib.suppress(RuntimeError):  # a loop that is closed has nobody to tell
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._coming = False  # first: what is told from here on has the loop look again
        for _ in range(len(self._told)):
            _wake(self._told.popleft())

    async def run(self, call: Call, o: LockOptions | None = None) -> Call:
        """Makes a request and waits until it is settled. A task that is cancelled leaves nothing behind."""
        call.tell = self.tell
        try:
            self._engine.submit(call)
            await self.settled(call, o)
        except BaseException:
            self._engine.abandon(call)
            raise
        return call

    async def settled(self, call: Call, o: LockOptions | None = None) -> None:
        """Waits until a call is settled or late, and tells the news meanwhile."""
        engine = self._engine
        while not call.settled:
            call.waiter = self._loop.create_future()
            if (bound := engine.bound(call)) < call.alarm_at:
                self._bound(call, bound)
            try:
                await call.waiter
            finally:
                call.waiter = None
            if call.settled:
                return
            if now() < engine.bound(call):
                _requests.tell(engine, call, o)
                continue
            engine.late(call)
            if call.frees_all and not call.settled:
                return

    def _bound(self, call: Call, at: float) -> None:
        """Has a call wake up at a time."""
        if len(self._bounds) >= self._most:
            self._bounds = [b for b in self._bounds if not b[2].settled]
            heapq.heapify(self._bounds)
            self._most = max(2 * len(self._bounds), _FEW)
        call.alarm_at = at
        heapq.heappush(self._bounds, (at, next(self._count), call))
        if at < self._alarm_at:
            self._set(at)

    def _set(self, at: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at, self._alarm = at, self._loop.call_later(max(at - now(), 0), self._ring)

    def _ring(self) -> None:
        self._alarm_at, self._alarm = NEVER, None
        while self._bounds and (self._bounds[0][0] <= now() or self._bounds[0][2].settled):
            call = heapq.heappop(self._bounds)[2]
            call.alarm_at = NEVER
            _wake(call)
        if self._bounds:
            self._set(self._bounds[0][0])


def _wake(call: Call) -> None:
    if call.waiter is not None and not call.waiter.done():
        call.waiter.set_result(None)
