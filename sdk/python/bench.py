"""Pairs of acquire and release a second: the SDK at 1 and more callers, beside a bare loop on the stubs and the Lock of
redis-py (`pip install redis`). For seconds only: `python bench.py LOCKD [REDIS]`, addresses, on a machine that does
nothing else."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc

import lockd
import lockd.aio
from lockd.v1 import session_service_pb2 as pb, session_service_pb2_grpc as rpc

SECONDS = 3.0


def measure(what: str, callers: int, pair: Callable[[int], object]) -> None:
    """Has threads do pairs on a name of their own each."""
    counts, times = [0] * callers, []
    end = time.monotonic() + SECONDS

    def work(i: int) -> None:
        while (begun := time.monotonic()) < end:
            pair(i)
            counts[i] += 1
            times.append(time.monotonic() - begun)

    threads = [threading.Thread(target=work, args=[i]) for i in range(callers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    report(what, callers, sum(counts), times)


def report(what: str, callers: int, pairs: int, times: list[float]) -> None:
    """Prints a line."""
    p50 = sorted(times)[len(times) // 2] * 1000
    print(f"{what:24} {callers:3} callers {pairs / SECONDS:9.0f} pairs/s   p50 {p50:7.2f} ms", flush=True)


def sdk(address: str) -> None:
    """The blocking face."""
    with lockd.connect(address) as client:

        def pair(i: int) -> None:
            with client.lock(f"bench/{i}"):
                pass

        pair(0)
        for callers in (1, 64):
            measure("lockd", callers, pair)


async def sdk_aio(address: str) -> None:
    """The face of asyncio."""
    async with lockd.aio.connect(address) as client:
        await tasks("lockd.aio", lambda i: client.lock(f"bench/{i}"))


async def tasks(what: str, lock: Callable[[int], Any]) -> None:
    """Has tasks do pairs on a name of their own each."""
    for callers in (1, 64):
        times: list[float] = []
        end = time.monotonic() + SECONDS

        async def work(i: int, end: float = end, times: list[float] = times) -> None:
            while (begun := time.monotonic()) < end:
                async with lock(i):
                    pass
                times.append(time.monotonic() - begun)

        await asyncio.gather(*(work(i) for i in range(callers)))
        report(what, callers, len(times), times)


def stubs(address: str) -> None:
    """One caller on a stream, with nothing around it."""
    requests: queue.SimpleQueue[pb.SessionRequest | None] = queue.SimpleQueue()
    with grpc.insecure_channel(address) as channel:
        stream = rpc.SessionServiceStub(channel).Session(iter(requests.get, None))
        ids = iter(range(1, 1 << 60))

        def ask(**message: Any) -> pb.SessionResponse:
            requests.put(pb.SessionRequest(request_id=next(ids), **message))
            answer: pb.SessionResponse = next(stream)
            return answer

        ask(open=pb.Open())

        def pair(i: int) -> None:
            hold = ask(acquire=pb.Acquire(name=f"bench/{i}")).granted.holds[0]
            ask(release=pb.Release(name=hold.name, kind=hold.kind, holder=hold.holder, fence=hold.fence))

        measure("a bare loop on the stubs", 1, pair)
        requests.put(None)


def redis_py(address: str) -> None:
    """The Lock of redis-py."""
    import redis  # noqa: PLC0415 (it is only for this)

    host, _, port = address.rpartition(":")
    client = redis.Redis(host, int(port))

    def pair(i: int) -> None:
        with client.lock(f"bench/{i}", timeout=30):
            pass

    for callers in (1, 64):
        measure("redis-py", callers, pair)
    asyncio.run(redis_aio(host, int(port)))


async def redis_aio(host: str, port: int) -> None:
    """The same for asyncio."""
    import redis.asyncio  # noqa: PLC0415

    async with redis.asyncio.Redis(host=host, port=port) as client:
        await tasks("redis.asyncio", lambda i: client.lock(f"bench/{i}", timeout=30))


if __name__ == "__main__":
    stubs(sys.argv[1])
    sdk(sys.argv[1])
    asyncio.run(sdk_aio(sys.argv[1]))
    if len(sys.argv) > 2:
        redis_py(sys.argv[2])
