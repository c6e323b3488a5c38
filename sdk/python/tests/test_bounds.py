"""Every call that has a bound keeps it, however slow or silent the server is, and so does close."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
from conftest import PATIENCE, Servers, renewed
from proxy import Proxy

import lockd
import lockd.aio

ANSWER, WAIT, CLOSE = 0.8, 0.3, 2.0
SLACK = 8.0
"""What a busy machine may add."""


def within(what: str, bound: float, call: Callable[[], object]) -> None:
    """Calls something that takes no longer than its bound. It may fail, as what has no answer does."""
    begun = time.monotonic()
    try:
        call()
    except lockd.LockdError as e:
        assert str(e)
    took = time.monotonic() - begun
    assert took < bound + SLACK, f"{what} took {took} s"


async def within_async(what: str, bound: float, call: Callable[[], Awaitable[object]]) -> None:
    """The same for a task."""
    begun = time.monotonic()
    try:
        await call()
    except lockd.LockdError as e:
        assert str(e)
    took = time.monotonic() - begun
    assert took < bound + SLACK, f"{what} took {took} s"


def all_keep_their_bounds(c: lockd.Client, *held: lockd.Held) -> None:
    """Uses a client for all that is bounded, and closes it. `held` was granted before."""
    within("a try", ANSWER, lambda: c.lock("try", wait=0).acquire())
    within("a wait", WAIT + ANSWER, lambda: c.lock("wait", wait=WAIT).acquire())
    within("a wait for all", WAIT + ANSWER, lambda: c.lock_all(["a", "b"], wait=WAIT).acquire())
    within("look", ANSWER, lambda: c.look("look"))
    within("holds", ANSWER, lambda: list(c.holds()))
    within("set_limit", ANSWER, lambda: c.set_limit("limit", 3))
    within("watch", ANSWER, lambda: c.watch("watch").__enter__())
    within("leader", ANSWER, lambda: c.election("election").leader())
    for h in held:
        within("make_fixed", ANSWER, functools.partial(h.make_fixed, 60))
        within("unlock", ANSWER, h.unlock)
    within("close", CLOSE, c.close)


async def tasks_keep_their_bounds(address: str) -> None:
    c = lockd.aio.connect(address, answer_timeout=ANSWER)
    await within_async("a try", ANSWER, lambda: c.lock("try", wait=0).acquire())
    await within_async("a wait", WAIT + ANSWER, lambda: c.lock("wait", wait=WAIT).acquire())
    await within_async("look", ANSWER, lambda: c.look("look"))
    await within_async("set_limit", ANSWER, lambda: c.set_limit("limit", 3))
    await within_async("watch", ANSWER, lambda: c.watch("watch").begin())
    await within_async("close", CLOSE, c.close)


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts, and never speaks."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        yield f"127.0.0.1:{s.getsockname()[1]}"


def test_a_server_that_never_speaks(silent: str) -> None:
    all_keep_their_bounds(lockd.connect(silent, answer_timeout=ANSWER))
    asyncio.run(tasks_keep_their_bounds(silent))


def test_a_server_that_stops_reading(address: str, name: str) -> None:
    with Proxy(address) as proxy:
        c = lockd.connect(proxy.address, answer_timeout=ANSWER)
        held = c.lock(name, wait=PATIENCE).acquire()
        proxy.cut()
        all_keep_their_bounds(c, held)


def test_tasks_of_a_server_that_stops_reading(address: str) -> None:
    with Proxy(address) as proxy:
        proxy.cut()
        asyncio.run(tasks_keep_their_bounds(proxy.address))


def test_a_server_that_stands_still(servers: Servers, name: str) -> None:
    server = servers.start()
    c = lockd.connect(server.address, answer_timeout=ANSWER)
    held = c.lock(name, wait=PATIENCE).acquire()
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        all_keep_their_bounds(c, held)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


def test_a_server_far_away(address: str, name: str) -> None:
    states: list[str] = []
    told = lambda s: states.append(s.state)  # noqa: E731
    ttl = 9
    with Proxy(address, far=0.4) as proxy:
        c = lockd.connect(proxy.address, answer_timeout=PATIENCE, on_status=told)
        held = [each.lock(f"{name}/{i}").acquire() for i, each in enumerate((c, c.with_ttl(ttl)))]
        assert [h.fence for h in c.holds(name)] == [held[0].fence]
        renewed(held[1], ttl)  # as the answers tell in time
        for h in held:
            h.check()
        held[0].unlock()
        assert not c.look(f"{name}/0").held
        within("close", CLOSE, c.close)
    assert "DISCONNECTED" not in states
