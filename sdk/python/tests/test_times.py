"""What a client says of time counts from what it sent, not from when the answer came. A session that goes on tells what
it holds."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from conftest import PATIENCE, until
from fake import LONG, VALID, Fake, Stream
from google.protobuf.duration_pb2 import Duration

import lockd
from lockd._clock import Beats
from lockd.v1 import lock_pb2, session_service_pb2 as pb

WAY = 1.0
"""How long an answer takes."""
SOON = lock_pb2.Validity(remaining=Duration(seconds=20))


@contextmanager
def slow(kind: str, **answer: object) -> Iterator[lockd.Client]:
    """A client of a server whose answers to requests of a kind take long, and may be others than usual. It answers no
    heartbeat: that would count from a later time."""

    def hook(st: Stream, r: pb.SessionRequest) -> bool:
        if r.WhichOneof("message") != kind:
            return r.HasField("heartbeat")
        time.sleep(WAY)
        return bool(answer) and st.send(r.request_id, **answer)

    with Fake(hook) as server, lockd.connect(server.address, answer_timeout=PATIENCE) as c:
        yield c


def test_a_grant_counts_from_what_was_sent() -> None:
    with slow("acquire") as c:
        assert c.lock("job").acquire().remaining() <= 60 - WAY


def test_an_extension_counts_from_what_was_sent() -> None:
    with slow("extend", extended=pb.Extended(validity=VALID)) as c:
        held = c.lock("job", lease=5).acquire()
        held.extend(60)
        assert held.remaining() <= 60 - WAY


def test_a_renewal_counts_from_the_heartbeat() -> None:
    def hook(st: Stream, r: pb.SessionRequest) -> bool:
        if r.HasField("acquire"):
            hold = lock_pb2.Hold(name="job", kind=r.acquire.kind, holder="#1", fence=1)
            return st.send(r.request_id, granted=pb.Granted(holds=[hold], validity=SOON, auto=True))
        if r.HasField("heartbeat"):
            time.sleep(WAY / 2)
        return False

    with Fake(hook) as server, lockd.connect(server.address, answer_timeout=PATIENCE) as c:
        held = c.lock("job").acquire()
        until("it is renewed", lambda: held.remaining() > 20)
        assert held.remaining() <= 60 - WAY / 2


def test_a_heartbeat_is_sent_in_each_interval() -> None:
    times: list[float] = []

    def hook(_: Stream, r: pb.SessionRequest) -> bool:
        if r.HasField("heartbeat"):
            times.append(time.monotonic())
        return False

    with Fake(hook) as server, lockd.connect(server.address, answer_timeout=PATIENCE) as c:
        c.look("job")
        until("it beats", lambda: len(times) > 4)
    assert min(b - a for a, b in itertools.pairwise(times)) < 1.6


def test_what_is_not_known_counts_from_the_opening() -> None:
    b = Beats()
    first = b.next(b.opened + 10)
    assert (b.at(first), b.at(0), b.at(first + 1)) == (b.opened + 10, b.opened, b.opened)
    last = [b.next(b.opened + 20 + i) for i in range(100)][-1]
    assert (b.at(last), b.at(first)) == (b.opened + 119, b.opened)


def test_nothing_is_later_than_max_hold() -> None:
    granted = pb.Granted(validity=VALID, auto=True, max_hold=Duration(seconds=20))
    granted.holds.add(name="job", kind=lock_pb2.LOCK_KIND_EXCLUSIVE, holder="#1", fence=1)
    beats: list[int] = []

    def hook(st: Stream, r: pb.SessionRequest) -> bool:
        if r.HasField("heartbeat"):
            beats.append(r.heartbeat.sent_id)
        return r.HasField("acquire") and st.send(r.request_id, granted=granted)

    with Fake(hook) as server, lockd.connect(server.address, answer_timeout=PATIENCE) as c:
        held = c.lock("job", max_hold=20).acquire()
        assert held.remaining() <= 20
        until("it is renewed", lambda: len(beats) > 1)
        c.look("job")  # is answered after that
        assert held.remaining() <= 20


def test_a_shorter_lease_counts_from_the_call_and_nothing_moves_it() -> None:
    asked, answers = threading.Event(), threading.Event()

    def hook(st: Stream, r: pb.SessionRequest) -> bool:
        if not r.HasField("extend"):
            return False
        # What it wrote before it read the request.
        st.send(heartbeat_ack=pb.HeartbeatAck(sent_id=0, valid_for=LONG))
        asked.set()
        assert answers.wait(PATIENCE)
        return st.send(r.request_id, extended=pb.Extended(validity=lock_pb2.Validity(remaining=Duration(seconds=30))))

    with Fake(hook) as server, lockd.connect(server.address, answer_timeout=PATIENCE) as c:
        held = c.lock("job").acquire()
        shortens = threading.Thread(target=held.shorten, args=[30])
        shortens.start()
        assert asked.wait(PATIENCE)
        time.sleep(WAY / 2)  # for the acknowledgement
        assert held.remaining() <= 30
        answers.set()
        shortens.join()
        assert held.remaining() <= 30


def test_a_session_that_goes_on_tells_all_that_it_holds() -> None:
    def hook(st: Stream, r: pb.SessionRequest) -> bool:
        if r.HasField("open") and r.open.HasField("resume"):
            opened = st.server.opened()
            opened.resumed.extend(pb.HeldLock(hold=h.hold, validity=VALID) for h in r.open.resume.holds)
            return st.send(r.request_id, opened=opened)
        if r.acquire.HasField("max_hold"):
            granted = st.server.granted(r.acquire)
            granted.max_hold.CopyFrom(r.acquire.max_hold)
            return st.send(r.request_id, granted=granted)
        if r.acquire.holder:  # again, too
            hold = lock_pb2.Hold(name=r.acquire.name, kind=r.acquire.kind, holder="me", fence=77)
            return st.send(r.request_id, granted=pb.Granted(holds=[hold], validity=VALID, auto=True))
        return False

    with Fake(hook) as server, lockd.connect(server.address, answer_timeout=PATIENCE) as c:
        for text in ("outer", "inner"):
            c.lock("twice", holder="me", annotation=text).acquire()
        c.lock("permits", kind="semaphore", permits=3, limit=4).acquire()
        bounded = c.lock("bounded", max_hold=40).acquire()
        fixed = c.lock("fixed", lease=50).acquire()
        server.streams[0].end()
        until("it goes on", lambda: len(server.of("open")) > 1)
        c.look("job")
        told = {h.hold.name: h for h in server.of("open")[1].resume.holds}
    assert sorted(told) == ["bounded", "fixed", "permits", "twice"]
    twice = told["twice"]
    assert (twice.hold_count, twice.annotation, twice.hold.holder, twice.hold.fence) == (2, "outer", "me", 77)
    assert (told["permits"].permits, told["permits"].hold_count, told["permits"].auto) == (3, 1, True)
    assert 0 < told["bounded"].max_hold.seconds < 40 and told["bounded"].hold.fence == bounded.fence
    assert not told["fixed"].auto and told["fixed"].hold.fence == fixed.fence


def test_what_the_server_does_not_tell_of_after_that_is_lost() -> None:
    with Fake() as server, lockd.connect(server.address, answer_timeout=PATIENCE) as c:
        held = c.lock("job", loss_raises=False).acquire()
        server.streams[0].end()
        assert held.lost.wait(PATIENCE)
        with pytest.raises(lockd.LockLost):
            held.check()
