"""Locks and unlocks, for the benchmarks in bench/: `bench.py PEER ADDRESS`. PEER is `lockd` or `lockd.aio` (the SDK),
`stubs` (a bare loop on the stubs), `redis` or `redis.aio` (the Lock of redis-py).

A line on standard input is `CALLERS MILLISECONDS`: so many threads or tasks lock and unlock a name of their own for so
long. The line on standard output is `PAIRS NANOSECONDS P50 P99`, the last two in nanoseconds."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

import grpc

import lockd
import lockd.aio
from lockd.v1 import session_service_pb2 as pb, session_service_pb2_grpc as rpc

Pair = Callable[[], object]
AsyncPair = Callable[[], Awaitable[object]]
_LEASE = 30  # seconds: no run is as long
_MOST = 1024  # callers


def told(began: float, times: list[float]) -> str:
    """The line that is told."""
    took = time.monotonic() - began
    times.sort()
    at = [times[min(int(q * len(times)), len(times) - 1)] if times else 0.0 for q in (0.5, 0.99)]
    return f"{len(times)} {round(took * 1e9)} {round(at[0] * 1e9)} {round(at[1] * 1e9)}"


def threads(pairs: list[Pair], seconds: float) -> str:
    """Has threads do pairs."""
    times: list[float] = []
    began = time.monotonic()
    end = began + seconds

    def work(pair: Pair) -> None:
        while (begun := time.monotonic()) < end:
            pair()
            times.append(time.monotonic() - begun)

    all_of_them = [threading.Thread(target=work, args=[pair]) for pair in pairs]
    for t in all_of_them:
        t.start()
    for t in all_of_them:
        t.join()
    return told(began, times)


async def tasks(pairs: list[AsyncPair], seconds: float) -> str:
    """Has tasks do pairs."""
    times: list[float] = []
    began = time.monotonic()
    end = began + seconds

    async def work(pair: AsyncPair) -> None:
        while (begun := time.monotonic()) < end:
            await pair()
            times.append(time.monotonic() - begun)

    await asyncio.gather(*(work(pair) for pair in pairs))
    return told(began, times)


def within(lock: Callable[[str], Any]) -> Callable[[int], Pair]:
    """Makes pairs of what makes a lock of a name."""

    def make(_: int) -> Pair:
        name = f"bench:{uuid.uuid4()}"

        def pair() -> None:
            with lock(name):
                pass

        return pair

    return make


def within_async(lock: Callable[[str], Any]) -> Callable[[int], AsyncPair]:
    """The same for tasks."""

    def make(_: int) -> AsyncPair:
        name = f"bench:{uuid.uuid4()}"

        async def pair() -> None:
            async with lock(name):
                pass

        return pair

    return make


class Stubs:
    """A stream on which threads ask, with nothing around it: a thread reads, and passes each answer on."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._requests: queue.SimpleQueue[pb.SessionRequest | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._answers: list[queue.SimpleQueue[pb.SessionResponse]] = [queue.SimpleQueue() for _ in range(_MOST)]
        self._stream = rpc.SessionServiceStub(channel).Session(iter(self._requests.get, None))
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._beat, daemon=True).start()
        self._ask(0, open=pb.Open())

    def _read(self) -> None:
        with contextlib.suppress(grpc.RpcError):
            for m in self._stream:
                if m.request_id:
                    self._answers[m.request_id % _MOST].put(m)

    def _beat(self) -> None:
        for sent in itertools.count(1):
            time.sleep(5)
            self._requests.put(pb.SessionRequest(heartbeat=pb.Heartbeat(sent_id=sent)))

    def _ask(self, caller: int, **message: Any) -> pb.SessionResponse:
        with self._lock:  # ids are to rise
            self._requests.put(pb.SessionRequest(request_id=next(self._ids) * _MOST + caller, **message))
        return self._answers[caller].get()

    def caller(self, i: int) -> Pair:
        """One that asks. Its number is the rest of the ids of its requests, of which one is under way at a time."""
        name = f"bench:{uuid.uuid4()}"

        def pair() -> None:
            hold = self._ask(i, acquire=pb.Acquire(name=name)).granted.holds[0]
            self._ask(i, release=pb.Release(name=name, kind=hold.kind, holder=hold.holder, fence=hold.fence))

        return pair


@contextlib.contextmanager
def blocking(peer: str, address: str) -> Iterator[Callable[[int], Pair]]:
    """What makes pairs for threads."""
    if peer == "lockd":
        with lockd.connect(address, name="bench") as client:
            yield within(client.lock)
    elif peer == "stubs":
        with grpc.insecure_channel(address) as channel:
            yield Stubs(channel).caller
    else:
        import redis  # noqa: PLC0415 (it is only for this)

        host, _, port = address.rpartition(":")
        with redis.Redis(host, int(port)) as them:
            yield within(lambda name: them.lock(name, timeout=_LEASE))


@contextlib.asynccontextmanager
async def asynchronous(peer: str, address: str) -> AsyncIterator[Callable[[int], AsyncPair]]:
    """What makes pairs for tasks."""
    if peer == "lockd.aio":
        async with lockd.aio.connect(address, name="bench") as client:
            yield within_async(client.lock)
    else:
        import redis.asyncio  # noqa: PLC0415

        host, _, port = address.rpartition(":")
        async with redis.asyncio.Redis(host=host, port=int(port)) as them:
            yield within_async(lambda name: them.lock(name, timeout=_LEASE))


def commands() -> Iterator[tuple[int, float]]:
    """What is asked for, until nothing more is."""
    for line in sys.stdin:
        callers, milliseconds = line.split()
        yield int(callers), int(milliseconds) / 1000


async def main_of_tasks(made: AbstractAsyncContextManager[Callable[[int], AsyncPair]]) -> None:
    async with made as caller:
        for callers, seconds in commands():  # nothing else is to be done meanwhile
            print(await tasks([caller(i) for i in range(callers)], seconds), flush=True)


def main_of_threads(made: AbstractContextManager[Callable[[int], Pair]]) -> None:
    with made as caller:
        for callers, seconds in commands():
            print(threads([caller(i) for i in range(callers)], seconds), flush=True)


if __name__ == "__main__":
    if sys.argv[1].endswith(".aio"):
        asyncio.run(main_of_tasks(asynchronous(sys.argv[1], sys.argv[2])))
    else:
        main_of_threads(blocking(sys.argv[1], sys.argv[2]))
