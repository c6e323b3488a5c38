"""What one client does for many callers: frames, wake-ups and timers are for all, and each has an answer of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from conftest import PATIENCE
from fake import FRAME_BYTES, Fake, Stream

import lockd
import lockd.aio
from lockd.v1 import session_service_pb2 as pb

CROWD = 32


class Together:
    """Answers acquires when so many have come, in one message, and nothing before."""

    def __init__(self) -> None:
        self._asked: list[pb.SessionRequest] = []

    def __call__(self, st: Stream, r: pb.SessionRequest) -> object:
        if not r.HasField("acquire"):
            return False
        self._asked.append(r)
        if len(self._asked) == CROWD:
            answers = [
                pb.SessionResponse(request_id=of.request_id, granted=st.server.granted(of.acquire))
                for of in self._asked
            ]
            st.send(batch=pb.ResponseBatch(responses=answers))
        return True


def never(_: Stream, r: pb.SessionRequest) -> object:
    """Answers no acquire."""
    return r.HasField("acquire")


def run(test: Callable[[lockd.aio.Client, Fake], Awaitable[None]], fake: Fake, **options: Any) -> None:
    async def main() -> None:
        async with lockd.aio.connect(fake.address, **options) as c:
            while True:
                with contextlib.suppress(lockd.Unavailable):  # it may take longer than an answer may
                    await c.look("n")
                    break
            await test(c, fake)

    with fake:
        asyncio.run(main())


def counted(loop: asyncio.AbstractEventLoop, name: str) -> list[Any]:
    """Notes the arguments of the calls of a method of a loop."""
    calls: list[Any] = []
    method = getattr(loop, name)

    def call(*args: Any, **more: Any) -> object:
        calls.append(args)
        return method(*args, **more)

    setattr(loop, name, call)
    return calls


async def crowd(c: lockd.aio.Client) -> list[asyncio.Task[lockd.aio.Held]]:
    """Has many ask before anything can be sent."""
    with c._engine.mu:
        tasks = [asyncio.create_task(c.lock(f"n{i}").acquire()) for i in range(CROWD)]
        await asyncio.sleep(0)
    return tasks


def test_what_is_asked_in_one_turn_of_a_loop_goes_into_one_frame() -> None:
    async def test(c: lockd.aio.Client, fake: Fake) -> None:
        held = await asyncio.gather(*await crowd(c))
        assert [h.name for h in held] == [f"n{i}" for i in range(CROWD)]
        assert fake.streams[0].batches.count(CROWD) == 1

    run(test, Fake())


def test_frames_are_no_larger_than_the_server_allows() -> None:
    async def test(c: lockd.aio.Client, fake: Fake) -> None:
        note, names = "x" * 4096, ["x" * 500 + str(i) for i in range(80)]
        with c._engine.mu:
            tasks = [asyncio.create_task(c.lock(f"n{i}", annotation=note).acquire()) for i in range(CROWD)]
            both = [asyncio.create_task(c.lock_all(names).acquire()) for _ in range(2)]
            await asyncio.sleep(0)
        await asyncio.gather(*tasks, *both)
        fits = FRAME_BYTES // 2 // (len(note) + 300)
        assert fake.streams[0].batches == [fits] * (CROWD // fits) + [CROWD % fits] * (CROWD % fits > 1)

    run(test, Fake(), answer_timeout=PATIENCE)


def test_answers_that_come_in_one_message_wake_the_loop_once() -> None:
    async def test(c: lockd.aio.Client, _: Fake) -> None:
        wakes = counted(asyncio.get_running_loop(), "call_soon_threadsafe")
        tasks = await crowd(c)
        await asyncio.gather(*tasks)
        assert len(wakes) == 1

    run(test, Fake(Together()), answer_timeout=PATIENCE)


def test_who_waits_is_woken_without_the_lock_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all who are woken wait for it."""
    fake = Fake(Together())
    free: list[bool] = []

    def tried(c: lockd.Client) -> None:
        free.append(c._engine.mu.acquire(blocking=False))
        if free[-1]:
            c._engine.mu.release()

    with fake, lockd.connect(fake.address, answer_timeout=PATIENCE) as c:
        c.look("n")
        wake = c._engine.wake_locked

        def tries(woken: Callable[[], object]) -> None:
            def first() -> None:
                other = threading.Thread(target=tried, args=[c])
                other.start()
                other.join()
                woken()

            wake(first)

        monkeypatch.setattr(c._engine, "wake_locked", tries)
        threads = [threading.Thread(target=c.lock(f"n{i}").acquire) for i in range(CROWD)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert free[:CROWD] == [True] * CROWD


def test_each_of_many_waits_as_long_as_it_said() -> None:
    async def test(c: lockd.aio.Client, _: Fake) -> None:
        async def wait(seconds: float) -> None:
            begun = time.monotonic()
            with pytest.raises(lockd.TimedOut):
                await c.lock("n", wait=seconds).acquire()
            assert seconds <= time.monotonic() - begun < seconds + PATIENCE

        await asyncio.gather(*(wait(0.01 * (CROWD - i)) for i in range(CROWD)))

    run(test, Fake(never), answer_timeout=0.1)


def test_the_timer_of_a_loop_rings_for_the_first_of_all() -> None:
    async def test(c: lockd.aio.Client, _: Fake) -> None:
        c._engine.mails.clear()  # with the timer of what was asked before
        timers = counted(asyncio.get_running_loop(), "call_at")
        begun = time.monotonic()
        tasks = [asyncio.create_task(c.lock("n", wait=1000 * (CROWD - i)).acquire()) for i in range(CROWD)]
        await asyncio.sleep(0)
        assert 1000 < min(when for when, *_ in timers) - begun < 1000 + 2 * PATIENCE
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(test, Fake(never), answer_timeout=PATIENCE)


def test_a_call_that_waited_for_a_connection_is_late_when_it_said() -> None:
    async def main(address: str) -> None:
        async with lockd.aio.connect(address, connect_wait=1, answer_timeout=0.1) as c:
            with pytest.raises((lockd.TimedOut, lockd.Unavailable)):
                await asyncio.wait_for(c.lock("n", wait=1.1).acquire(), PATIENCE)

    with Fake(never) as fake:
        asyncio.run(main(fake.address))


def test_timers_are_not_kept_of_calls_that_are_settled() -> None:
    async def test(c: lockd.aio.Client, _: Fake) -> None:
        async def work(i: int) -> None:
            for _ in range(50):
                async with c.lock(f"n{i}", wait=3600):
                    pass

        timers = counted(asyncio.get_running_loop(), "call_at")
        await asyncio.gather(*(work(i) for i in range(CROWD)))
        (mail,) = c._engine.mails.values()
        assert len(mail._bounds) <= 128 and len(timers) < 50

    run(test, Fake(), answer_timeout=PATIENCE)


def test_a_client_is_used_by_many_loops() -> None:
    async def work(c: lockd.aio.Client, name: str) -> None:
        async def one(i: int) -> None:
            async with c.lock(f"{name}/{i}"):
                pass

        await asyncio.gather(*(one(i) for i in range(CROWD)))

    with Fake() as fake:
        c = lockd.aio.connect(fake.address, answer_timeout=PATIENCE)
        threads = [threading.Thread(target=asyncio.run, args=[work(c, f"n{i}")]) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for i in range(4):
            asyncio.run(work(c, f"m{i}"))
        assert len(c._engine.mails) <= 2  # those of loops that are closed are not kept
        asyncio.run(c.close())
        assert len(fake.of("release")) == 8 * CROWD
