"""What a client says to a server that does a certain thing: after its stream broke, and of what it wants no more."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from conftest import PATIENCE, until
from fake import LONG, VALID, Fake, Hook, Stream

import lockd
import lockd.aio
from lockd._clock import now, seconds
from lockd.v1 import lock_pb2, session_service_pb2 as pb

WAITED = 0.3
"""How long a wait has lasted when its stream breaks."""
REFUSED = pb.Result(failure=pb.Failure(code=9, message="it was answered before", reason="REQUEST_NOT_WAITING"))


def resumed(st: Stream, r: pb.SessionRequest, **more: Any) -> bool:
    """Answers Open: all that is named goes on, but what is said to be lost."""
    opened, lost = st.server.opened(), more.get("lost", ())
    for h in r.open.resume.holds:
        if h.hold.name in lost:
            opened.lost.add(hold=h.hold, reason=pb.Lost.REASON_EXPIRED)
        else:
            opened.resumed.add(hold=h.hold, validity=VALID)
    return st.send(r.request_id, opened=opened)


def grants_late(st: Stream, r: pb.SessionRequest) -> bool:
    """Grants what is asked for when that is cancelled."""
    if r.HasField("cancel"):
        (asked,) = (a.acquire for a in st.asked if a.request_id == r.cancel.target_id)
        st.send(r.cancel.target_id, granted=st.server.granted(asked))
        return st.send(r.request_id, result=REFUSED)
    return r.HasField("acquire")


def is_released(fake: Fake, c: lockd.Client) -> None:
    """Waits until all is released that was granted."""
    until("it is released", lambda: len(fake.of("release")) == len(fake.of("acquire")))
    assert {(r.name, r.fence) for r in fake.of("release")} == {("n", i + 1) for i in range(len(fake.of("acquire")))}
    assert c._engine.session is not None and not c._engine.session.holds.by_key


def test_a_grant_that_nobody_wants_any_more_is_released() -> None:
    def tries() -> bool:
        with pytest.raises(lockd.TimedOut):
            c.lock("n", wait=0.01).acquire()
        return fake.of("acquire") != []  # else it ended before it was sent

    async def cancelled() -> None:
        task, before = asyncio.create_task(lockd.aio.Client(c._engine).lock("n").acquire()), len(fake.of("acquire"))
        while len(fake.of("acquire")) == before:
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with Fake(grants_late) as fake, lockd.connect(fake.address, answer_timeout=0.1) as c:
        until("it was asked for", tries)
        is_released(fake, c)
        asyncio.run(cancelled())
        is_released(fake, c)


@pytest.mark.parametrize("wait", [20, None])
def test_a_wait_goes_on_with_what_is_left_of_it(wait: float | None) -> None:
    def hook(st: Stream, r: pb.SessionRequest) -> object:
        if r.HasField("open"):
            return resumed(st, r)
        if r.HasField("acquire") and st is st.server.streams[0]:
            time.sleep(WAITED)
            return st.end()
        return False

    with Fake(hook) as fake, lockd.connect(fake.address, answer_timeout=PATIENCE) as c:
        begun = time.monotonic()
        c.lock("n", wait=wait).acquire()
        took = time.monotonic() - begun
        first, again = fake.of("acquire")
    assert not first.instead_of and not first.HasField("waited")
    assert again.instead_of == [r.request_id for r in fake.streams[0].asked if r.HasField("acquire")]
    assert WAITED <= seconds(again.waited) <= took
    if wait is None:
        assert not again.HasField("wait")
    else:
        assert wait - took <= seconds(again.wait) <= wait - WAITED


def test_what_ended_is_not_kept_by_resuming() -> None:
    """One is lost, and says so. Another one is unlocked while it is not known whether it goes on."""
    asked, answers = threading.Event(), threading.Event()

    def hook(st: Stream, r: pb.SessionRequest) -> object:
        if not r.open.HasField("resume"):
            return False
        asked.set()
        assert answers.wait(PATIENCE)
        return resumed(st, r, lost=["lost"])

    with Fake(hook) as fake, lockd.connect(fake.address, answer_timeout=PATIENCE) as c:
        lost, unlocked, kept = (c.lock(n).acquire() for n in ("lost", "unlocked", "kept"))
        fake.streams[0].end()
        assert asked.wait(PATIENCE)
        unlocks = threading.Thread(target=unlocked.unlock)
        unlocks.start()
        until("it is unlocked", lambda: not unlocked.is_held)
        answers.set()
        unlocks.join(PATIENCE)
        assert lost.loss is not None and lost.loss.lost_reason == "EXPIRED"
        kept.check()
        assert [r.name for r in fake.of("release")] == ["unlocked"]
        assert c._engine.session is not None and {k[0] for k in c._engine.session.holds.by_key} == {"kept"}


def test_what_goes_on_and_is_not_held_is_released() -> None:
    def hook(st: Stream, r: pb.SessionRequest) -> object:
        if not r.open.HasField("resume"):
            return False
        opened = st.server.opened()
        hold = lock_pb2.Hold(name="other", kind=lock_pb2.LOCK_KIND_EXCLUSIVE, holder="#9", fence=9)
        opened.resumed.add(hold=hold, validity=VALID)
        return st.send(r.request_id, opened=opened)

    with Fake(hook) as fake, lockd.connect(fake.address, answer_timeout=PATIENCE) as c:
        c.look("n")
        fake.streams[0].end()
        until("it is released", lambda: [(r.name, r.fence) for r in fake.of("release")] == [("other", 9)])


@pytest.mark.parametrize("told", ["heartbeat", "extend", "resume", "again"])
def test_a_deadline_that_has_passed_stays_passed(told: str) -> None:
    """Whatever is told after it: whoever asked meanwhile was told that the lock is lost."""
    hook: Hook = lambda st, r: r.HasField("open") and resumed(st, r)  # noqa: E731
    with Fake(hook) as fake, lockd.connect(fake.address, answer_timeout=PATIENCE) as c:
        held = c.lock("n", holder="me").acquire()
        engine, grant = c._engine, held._grants[0]
        assert engine.session is not None
        st = engine.session.stream
        assert st is not None
        with engine.mu:
            grant.hold.deadline = now()  # the timer is for the one before
            match told:
                case "heartbeat":
                    st._answers.handle(pb.SessionResponse(heartbeat_ack=pb.HeartbeatAck(valid_for=LONG)))
                case "extend":
                    engine.session.holds.changed(grant.call("extend", pb.Extend), st.beats.until(VALID))
                case "resume":
                    fake.streams[0].end()
                case "again":
                    pass
        if told == "resume":
            until("it goes on", lambda: len(fake.of("open")) > 1)
            c.look("n")
        elif told == "again":
            assert c.lock("n", holder="me").acquire().is_held
        assert held.loss is not None and held.loss.lost_reason == "DEADLINE_PASSED"
        until("it is released", lambda: fake.of("release"))


def test_who_stood_still_looks_at_the_clock_before_anything_is_sent() -> None:
    """What it asks for after that is for the next session: this one has ended, and a try would have no answer."""
    with Fake(lambda _, r: r.HasField("heartbeat")) as fake, lockd.connect(fake.address, answer_timeout=PATIENCE) as c:
        first = c.lock("first").acquire()
        engine = c._engine
        assert engine.session is not None and engine.session.stream is not None
        with engine.mu:
            engine.session.stream._heard -= engine.session.ttl
        c.lock("second", wait=0).acquire()
        assert not first.is_held
        assert [[a.name for a in st.of("acquire")] for st in fake.streams] == [["first"], ["second"]]


def test_what_is_being_released_is_released_before_anything_is_asked_for() -> None:
    """Else it would be held once more, or wait for itself."""

    def hook(st: Stream, r: pb.SessionRequest) -> object:
        if r.HasField("open"):
            return resumed(st, r)
        if st is not st.server.streams[0] or r.acquire.name == "held":
            return False
        return st.end() if r.HasField("look") else True

    async def asks(c: lockd.aio.Client) -> None:
        held = await c.lock("held").acquire()
        again = asyncio.create_task(c.lock("again").acquire())
        await asyncio.sleep(0)
        released = asyncio.create_task(held.unlock())
        await asyncio.sleep(0)
        await c.look("n")
        await asyncio.gather(again, released)

    with Fake(hook) as fake, lockd.connect(fake.address, answer_timeout=PATIENCE) as c:
        asyncio.run(asks(lockd.aio.Client(c._engine)))
        asked = [r.WhichOneof("message") for r in fake.streams[1].asked]
    assert [kind for kind in asked if kind in ("acquire", "release")] == ["release", "acquire"]
