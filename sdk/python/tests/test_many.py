"""What one client with very many locks does: what ends one of them, or goes on with all, looks at no others for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lockd import _hold, _resume
from lockd._clock import NEVER, Until
from lockd._hold import Grant
from lockd._session import Session
from lockd.v1 import lock_pb2, session_service_pb2 as pb

MANY = 2000


class Looked(dict[Any, Any]):
    """Counts how often all that is in it is looked at."""

    looks = 0

    def values(self) -> Any:
        self.looks += 1
        return super().values()

    def items(self) -> Any:
        self.looks += 1
        return super().items()

    def __iter__(self) -> Iterator[Any]:
        self.looks += 1
        return super().__iter__()


class Idle:
    """An engine that does nothing. It has one timer, and a clock that stands still."""

    def __init__(self) -> None:
        self.timers = self
        self.clock = 0.0
        self.ring: Callable[[], None] | None = None

    def at_locked(self, _: float, call: Callable[[], None]) -> None:
        self.ring = call


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> Idle:
    engine = Idle()
    monkeypatch.setattr(_hold, "now", lambda: engine.clock)
    return engine


def session_of(idle: Idle) -> Any:
    s: Any = Session(idle)  # type: ignore[arg-type]
    s.pending, s.holds.by_key = Looked(), Looked()
    return s


def hold(i: int) -> lock_pb2.Hold:
    return lock_pb2.Hold(name=f"n{i}", kind=lock_pb2.LOCK_KIND_EXCLUSIVE, holder="#1", fence=i + 1)


def test_a_lease_that_ends_is_found_without_a_look_at_all(idle: Idle) -> None:
    s = session_of(idle)
    deadlines = list(range(1, MANY + 1))
    random.Random(1).shuffle(deadlines)
    for i, at in enumerate(deadlines):
        s.holds.add(Grant(s, hold(i)), Until(at), NEVER, False)
    s.holds.by_key.looks = 0
    for second in range(1, MANY + 1):
        idle.clock = second + 0.5
        assert idle.ring is not None
        idle.ring()
        assert len(s.holds.by_key) == MANY - second
    assert s.holds.by_key.looks == 0


def test_each_lease_ends_at_its_own_deadline(idle: Idle) -> None:
    s = session_of(idle)
    rng = random.Random(2)
    deadlines = rng.sample(range(1, 10 * MANY), MANY)
    grants = [Grant(s, hold(i)) for i in range(MANY)]
    for g, at in zip(grants, deadlines, strict=True):
        s.holds.add(g, Until(at), NEVER, False)
    for i, g in enumerate(grants):
        to = rng.randrange(1, 10 * MANY)
        if i % 4 == 0:
            s.holds.remove(g)
        elif i % 4 == 1:
            s.holds.raise_to(g.hold, Until(to))
        elif i % 4 == 2 and to < g.hold.deadline:  # as a shorten has it
            g.hold.deadline = to
            s.holds.alarm(g.hold)
    for second in range(0, 10 * MANY, 50):
        idle.clock = second + 0.5
        assert idle.ring is not None
        idle.ring()
        for i, g in enumerate(grants):
            assert bool(g.hold.grants) == (i % 4 != 0 and g.hold.deadline > second), i


def test_nothing_is_left_of_locks_that_are_unlocked(idle: Idle) -> None:
    s = session_of(idle)
    s.holds.add(Grant(s, hold(MANY)), Until(1), NEVER, False)
    for i in range(MANY):
        g = Grant(s, hold(i))
        s.holds.add(g, Until(1000 + i), NEVER, False)
        s.holds.remove(g)
        assert len(s.holds._alarms) <= 2 * _hold._FEW_ALARMS


@pytest.mark.parametrize("told", ["lost", "resumed", "nothing"])
def test_releases_are_found_without_a_look_at_all(idle: Idle, told: str) -> None:
    """A client that was cut off for longer than its leases has released all of them when it comes back."""
    s = session_of(idle)
    opened, claimed = pb.Opened(), {}
    for i in range(MANY):
        g = Grant(s, hold(i))
        s.release(g)
        claimed[g.hold.key] = pb.HeldLock(hold=hold(i))
        if told == "lost":
            opened.lost.add(hold=hold(i))
        elif told == "resumed":
            opened.resumed.add(hold=hold(i))
    bid: Any = type("Bid", (), {"claimed": claimed})
    stream: Any = None
    s.pending.looks = 0
    _resume._resumed(s, stream, bid, opened)
    assert len(s.pending) == (MANY if told == "resumed" else 0)
    assert s.pending.looks <= 1
