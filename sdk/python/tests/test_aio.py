"""The same for asyncio."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import pytest
from conftest import PATIENCE, Servers, pick, sockets, until

import lockd
import lockd.aio


def run(address: str, test: Callable[[lockd.aio.Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with lockd.aio.connect(address, answer_timeout=PATIENCE) as c:
            await test(c)

    asyncio.run(main())


def test_a_lock_is_held_in_its_block(address: str, other: lockd.Client, shared: Servers, name: str) -> None:
    async def test(c: lockd.aio.Client) -> None:
        async with c.lock(name, wait=5) as held, c.watch(name) as ends:
            assert held.fence > 0
            with pytest.raises(lockd.LockHeld):
                other.lock(name, wait=0).acquire()
            await held.make_fixed(60)
            await held.extend(70)
            await held.shorten(40)
            assert held.remaining() < 40
            assert [h.fence async for h in c.holds(name)] == [held.fence]
            await held.unlock()
            event = await ends.next(PATIENCE)
            assert event is not None and event.fence == held.fence
            assert await ends.next(0.01) is None
        assert not (await c.look(name)).held
        async with c.lock_all([name, name + "2"]) as both:
            assert len(both.all) == 2
        losses: asyncio.Queue[lockd.LockLost] = asyncio.Queue()
        with pytest.raises(lockd.LockLost):
            async with c.lock(name) as held:
                held.on_lost(losses.put_nowait)
                await asyncio.to_thread(shared.force, name)
                assert await held.lost.wait(PATIENCE)
        assert (await losses.get()).lost_reason == "FORCED"
        with pytest.raises(ZeroDivisionError):
            async with c.lock(name):
                raise ZeroDivisionError

    run(address, test)


def test_a_waiting_task_is_told_who_is_in_the_way(address: str, client: lockd.Client, name: str) -> None:
    async def test(c: lockd.aio.Client) -> None:
        told: asyncio.Queue[lockd.LockHeld] = asyncio.Queue()
        held = client.lock(name, annotation="nightly").acquire()
        waits = asyncio.create_task(c.lock(name, max_hold=0.5, on_held=told.put_nowait).acquire())
        by = await told.get()
        assert (by.name, by.client, by.annotation) == (name, "test", "nightly")
        await asyncio.to_thread(held.unlock)
        mine = await waits
        assert await mine.lost.wait(PATIENCE)
        assert mine.loss is not None and (mine.loss.lost_reason, mine.loss.max_hold) == ("EXPIRED", True)

    run(address, test)


def test_a_busy_loop_keeps_its_lock(address: str, name: str) -> None:
    async def main() -> None:
        ttl = 7
        async with lockd.aio.connect(address, session_ttl=ttl, answer_timeout=PATIENCE) as c, c.lock(name) as held:
            begun = time.monotonic()
            while time.monotonic() + held.remaining() <= begun + ttl:  # it was not renewed since
                busy = time.monotonic() + 0.1
                while time.monotonic() < busy:
                    pass
                held.check()

    asyncio.run(main())


def test_sections_do_not_overlap(address: str, name: str) -> None:
    count = 0

    async def test(c: lockd.aio.Client) -> None:
        async def work() -> None:
            nonlocal count
            for _ in range(pick(50, 1000)):
                async with c.lock(name):
                    seen = count
                    await asyncio.sleep(0)
                    count = seen + 1

        await asyncio.gather(*(work() for _ in range(pick(8, 16))))

    run(address, test)
    assert count == pick(8, 16) * pick(50, 1000)


def test_a_cancelled_wait_leaves_nothing(address: str, client: lockd.Client, name: str) -> None:
    async def test(c: lockd.aio.Client) -> None:
        for i in range(pick(20, 1000)):
            task = asyncio.create_task(c.lock(name, kind="fair").acquire())
            await asyncio.sleep(i % 10 * 0.002)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        end = time.monotonic() + PATIENCE
        while (info := await c.look(name)).queued or info.waiters:
            assert time.monotonic() < end
            await asyncio.sleep(0.01)
        assert [h async for h in c.holds()] == []

    with client.lock(name, kind="fair"):
        run(address, test)
    with client.lock(name, kind="fair", wait=0):
        pass


def test_a_cancelled_release_goes_on(address: str, client: lockd.Client, name: str) -> None:
    async def test(c: lockd.aio.Client) -> None:
        async def work(enters: asyncio.Event) -> None:
            async with c.lock(name):
                enters.set()

        enters = asyncio.Event()
        task = asyncio.create_task(work(enters))
        await enters.wait()  # and then it is in __aexit__
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        async with c.lock(name, wait=PATIENCE):
            pass

    run(address, test)


def test_closing_releases_all_and_leaves_nothing(address: str, client: lockd.Client, name: str) -> None:
    async def closes() -> None:
        c = lockd.aio.connect(address, answer_timeout=PATIENCE)
        held = await c.lock(name).acquire()
        waits = asyncio.create_task(c.lock(name).acquire())
        while not (await c.look(name)).waiters:
            await asyncio.sleep(0.01)
        await c.close()
        with pytest.raises(lockd.ClientClosed):
            await waits
        assert not held.is_held and asyncio.all_tasks() == {asyncio.current_task()}

    client.look(name)  # has its threads begin
    until("all is quiet", lambda: not [t for t in threading.enumerate() if "connector" in t.name])
    before, connected = set(threading.enumerate()), sockets()
    for _ in range(pick(1, 100)):
        asyncio.run(closes())
        assert not client.look(name).held
        until("no thread is left", lambda: set(threading.enumerate()) <= before)
        until("no connection is left", lambda: sockets() <= connected)


def test_a_ttl_of_its_own_is_a_session_of_its_own(address: str, other: lockd.Client, name: str) -> None:
    async def test(c: lockd.aio.Client) -> None:
        quick = c.with_ttl(10)
        assert quick is c.with_ttl(10)
        async with c.lock(name), quick.lock(name + "2") as held:
            assert held.remaining() <= 10
            with pytest.raises(lockd.LockHeld):
                await quick.lock(name, wait=0).acquire()
        await quick.lock(name).acquire()
        await c.close()
        with pytest.raises(lockd.ClientClosed):
            await quick.lock(name).acquire()
        assert not other.look(name).held

    run(address, test)
