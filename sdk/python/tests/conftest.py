"""Real servers: lockd of LOCKD_TEST_BINARY over a redis-server, both on free ports."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

import grpc
import pytest

import lockd
from lockd.testing import LockdServer
from lockd.v1 import admin_service_pb2 as admin, admin_service_pb2_grpc as admin_rpc

PATIENCE = 120.0
"""Bounds what should come soon. Far more than a busy machine needs."""
LONG = os.environ.get("TEST_LONG") == "1"


def pick(short: int, long: int) -> int:
    """How much of something is done in the first tier of tests, and how much in the second."""
    return long if LONG else short


def until(what: str, holds: Callable[[], object]) -> None:
    """Waits for something that has no signal."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.01)


def renewed(held: lockd.Held, ttl: float) -> None:
    """Waits until the lease of a session was renewed after this call. Raises LockLost if the lock is lost before."""
    begun = time.monotonic()

    def lasts() -> bool:
        held.check()
        return time.monotonic() + held.remaining() > begun + ttl

    until("it is renewed", lasts)


def sockets() -> set[str]:
    """The sockets that this process has."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # it was closed meanwhile
            found.add(os.readlink(f"/proc/self/fd/{fd}"))
    return {link for link in found if link.startswith("socket:")}


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture(scope="session")
def redis() -> Iterator[str]:
    """The address of a Redis."""
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def answers() -> bool:
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) == 0

    until("Redis is there", answers)
    yield f"127.0.0.1:{port}"
    process.kill()
    process.wait()


class Servers:
    """Starts replicas over one Redis."""

    def __init__(self, redis: str) -> None:
        self._redis = redis
        self.all: list[LockdServer] = []

    def start(self, **env: str) -> LockdServer:
        store = {"LOCKD_STORE_KIND": "standalone", "LOCKD_REDIS_ADDR": self._redis}
        self.all.append(LockdServer(env={**store, **env}))
        return self.all[-1]

    def force(self, name: str) -> None:
        """Releases a lock by force."""
        with grpc.insecure_channel(self.all[0].admin) as channel:
            request = admin.ForceReleaseRequest(name=name, by="ann", why="a test")
            admin_rpc.AdminServiceStub(channel).ForceRelease(request, timeout=PATIENCE)


@pytest.fixture
def servers(redis: str) -> Iterator[Servers]:
    s = Servers(redis)
    yield s
    for server in s.all:
        server.stop()


@pytest.fixture(scope="session")
def shared(redis: str) -> Iterator[Servers]:
    """A replica for all tests that do it no harm."""
    s = Servers(redis)
    s.start()
    yield s
    s.all[0].stop()


@pytest.fixture
def address(shared: Servers) -> str:
    return shared.all[0].address


@pytest.fixture
def client(address: str) -> Iterator[lockd.Client]:
    """A client that does not depend on the machine being fast."""
    with lockd.connect(address, name="test", answer_timeout=PATIENCE) as c:
        yield c


@pytest.fixture
def other(address: str) -> Iterator[lockd.Client]:
    with lockd.connect(address, name="other", answer_timeout=PATIENCE) as c:
        yield c


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name of its own for each test."""
    return f"{request.node.name}/{os.urandom(4).hex()}"
