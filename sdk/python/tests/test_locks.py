"""What a lock is for who uses one."""

from __future__ import annotations

import threading
import time

import pytest
from conftest import PATIENCE, Servers, pick, until
from fake import Fake, Stream
from google.protobuf.duration_pb2 import Duration

import lockd
from lockd.v1 import lock_pb2, session_service_pb2 as pb


def is_free(c: lockd.Client, name: str) -> bool:
    info = c.look(name)
    return not info.held and not info.waiters


def test_a_lock_is_held_in_its_block(client: lockd.Client, other: lockd.Client, name: str) -> None:
    with client.lock(name, annotation="nightly") as held:
        assert held.fence > 0 and held.remaining() > 0 and held.name == name and held.kind == "exclusive"
        held.check()
        with pytest.raises(lockd.LockHeld) as refused:
            other.lock(name, wait=0).acquire()
        assert (refused.value.client, refused.value.annotation) == ("test", "nightly")
        with pytest.raises(lockd.TimedOut):
            other.lock(name, wait=0.05).acquire()
        assert [h.fence for h in client.holds(name)] == [held.fence]
        first = held.fence
    assert is_free(other, name)
    with pytest.raises(lockd.NotHeld):
        held.check()
    with pytest.raises(lockd.NotHeld):
        held.unlock()
    with other.lock(name) as later:
        assert later.fence > first


def test_kinds(client: lockd.Client, other: lockd.Client, name: str) -> None:
    with client.lock(name + "r", kind="read"), other.lock(name + "r", kind="read"), pytest.raises(lockd.LockHeld):
        other.lock(name + "r", kind="write", wait=0).acquire()
    with client.lock(name + "s", permits=2, limit=3) as two, other.lock(name + "s", limit=3, wait=0):
        with pytest.raises(lockd.LockHeld):
            other.lock(name + "s", limit=3, wait=0).acquire()
        assert two.keep_permits(1) == 1
        with other.lock(name + "s", limit=3, wait=0), pytest.raises(lockd.LimitMismatch) as mismatch:
            other.lock(name + "s", limit=4, wait=0).acquire()
        assert mismatch.value.limit == 3
        assert client.set_limit(name + "s", 5) == 3
    with client.lock(name + "h", holder="me") as one, client.lock(name + "h", holder="me") as again:
        assert one.fence == again.fence
    with client.lock(name + "f", kind="fair"), pytest.raises(lockd.LockHeld):
        other.lock(name + "f", kind="fair", wait=0).acquire()
    with pytest.raises(lockd.Invalid):
        client.lock("").acquire()


def test_all_or_none(client: lockd.Client, other: lockd.Client, name: str) -> None:
    items: list[str | lockd.Item] = [name + "a", lockd.Item(name + "s", permits=1, limit=2)]
    with client.lock_all(items, wait=0) as both:
        assert [h.kind for h in both.all] == ["exclusive", "semaphore"] and both.remaining() > 0
        with pytest.raises(lockd.LockHeld) as refused:
            other.lock_all([name + "b", name + "a"], wait=0).acquire()
        assert refused.value.name == name + "a" and is_free(other, name + "b")
        both.all[0].unlock()
        assert not both.is_held and both.all[1].is_held
    assert other.look(name + "s").holders == 0


def test_a_lease_is_what_it_was_made(client: lockd.Client, name: str) -> None:
    with client.lock(name) as held:
        with pytest.raises(lockd.AutoLease):
            held.extend(60)
        held.make_fixed(60)
        held.extend(90)
        assert 60 < held.remaining() < 90
        held.shorten(30)
        assert held.remaining() < 30
        held.make_auto()
    with client.lock(name + "/fixed", lease=0.5, loss_raises=False) as short:
        assert short.lost.wait(PATIENCE)
        assert short.loss is not None and short.loss.lost_reason in ("EXPIRED", "DEADLINE_PASSED")
        with pytest.raises(lockd.LockLost):
            short.unlock()


def test_a_loss_is_told_and_raised_by_choice(client: lockd.Client, shared: Servers, name: str) -> None:
    losses: list[lockd.LockLost] = []
    with pytest.raises(lockd.LockLost, match="ann"), client.lock(name) as held:
        held.on_lost(losses.append)
        shared.force(name)
        assert held.lost.wait(PATIENCE)
    assert held.loss is not None and (held.loss.lost_reason, held.loss.by) == ("FORCED", "ann")
    until("the function was called", lambda: losses)
    assert len(losses) == 1
    with client.lock(name, loss_raises=False) as held:
        shared.force(name)
        assert held.lost.wait(PATIENCE)


def test_a_lock_ends_with_its_max_hold(address: str, name: str) -> None:
    most = 10
    with lockd.connect(address, session_ttl=8, answer_timeout=PATIENCE) as c:
        begun = time.monotonic()
        held = c.lock(name, max_hold=most).acquire()  # the only one, and longer than the session's TTL
        assert held.lost.wait(PATIENCE)
        assert time.monotonic() - begun >= most - most / 100 - 0.002
        with pytest.raises(lockd.LockLost, match="EXPIRED: held for the time of max_hold") as lost:
            held.unlock()
        assert lost.value.lost_reason == "EXPIRED" and lost.value.max_hold
        with c.lock(name, max_hold=60) as held, pytest.raises(lockd.AutoLease):
            held.extend(90)
        with c.lock(name, max_hold=60) as held:
            held.make_fixed(90)
            assert held.remaining() < 60
            held.make_auto()
            assert held.remaining() < 60
        with pytest.raises(lockd.Invalid):
            c.lock(name, max_hold=60, lease=60).acquire()


@pytest.mark.parametrize(("until_max_hold", "left"), [(True, 3000), (False, 2000)])
def test_a_lease_lasts_until_the_max_hold_that_the_grant_told(until_max_hold: bool, left: int) -> None:
    # The second message of the end of max_hold tells less, as if it had been on its way for longer. Without that word
    # it is a lease that is not renewed until then.
    short = lock_pb2.Validity(remaining=Duration(seconds=2000), until_max_hold=until_max_hold)

    def hook(st: Stream, r: pb.SessionRequest) -> bool:
        match r.WhichOneof("message"):
            case "acquire":
                granted = st.server.granted(r.acquire)
                granted.validity.remaining.seconds, granted.max_hold.seconds = 1000, 3000
                return st.send(r.request_id, granted=granted)
            case "extend":
                return st.send(r.request_id, extended=pb.Extended(validity=short))
        return False

    with Fake(hook) as fake, lockd.connect(fake.address, answer_timeout=PATIENCE) as c:
        held = c.lock("n", max_hold=3000).acquire()
        assert held.remaining() <= 1000
        held.make_fixed(3600)
        assert left - PATIENCE < held.remaining() <= left


def test_max_hold_goes_on_at_another_replica(servers: Servers, name: str) -> None:
    one, two = servers.start(), servers.start()
    c = lockd.connect([one.address, two.address], session_ttl=60, answer_timeout=PATIENCE)
    with c, c.lock(name, max_hold=20) as held, c.lock(name + "/other") as other:
        one.stop()
        assert held.fence in [h.fence for h in c.holds(name)]
        assert held.remaining() < 20 < other.remaining()


def test_who_is_in_the_way_is_told(client: lockd.Client, other: lockd.Client, name: str) -> None:
    told: list[lockd.LockHeld] = []
    positions: list[int] = []
    held = client.lock(name, annotation="nightly").acquire()

    def on_held(by: lockd.LockHeld) -> None:
        told.append(by)
        if held.is_held:
            held.unlock()

    with other.lock(name, on_held=on_held, on_queued=positions.append):
        by = told[0]
        assert (by.name, by.client, by.annotation) == (name, "test", "nightly")
        assert by.peer and by.held_by and by.held_for is not None and by.retry_after is None
        assert positions == [0]


def test_leaving_keeps_what_the_body_raised(client: lockd.Client, shared: Servers, name: str) -> None:
    with pytest.raises(ZeroDivisionError), client.lock(name) as held:
        shared.force(name)
        assert held.lost.wait(PATIENCE)
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), client.lock(name):
        raise ZeroDivisionError
    assert is_free(client, name)
    with client.lock(name) as held:
        held.unlock()  # leaving is then no second one


def test_a_function_under_a_lock(client: lockd.Client, other: lockd.Client, name: str) -> None:
    @client.locked(lambda order: f"{name}/{order}", wait=5)
    def work(order: int) -> str:
        with pytest.raises(lockd.LockHeld):
            other.lock(f"{name}/{order}", wait=0).acquire()
        return "done"

    assert work(7) == "done"
    assert is_free(other, f"{name}/7")


def test_sections_do_not_overlap(address: str, client: lockd.Client, name: str) -> None:
    count = 0
    sections, callers = pick(50, 1000), pick(8, 16)

    def work() -> None:
        nonlocal count
        for _ in range(sections):
            with client.lock(name):
                seen = count
                threading.Event().wait(0)
                count = seen + 1

    threads = [threading.Thread(target=work) for _ in range(callers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert count == callers * sections


def test_ends_of_holds_are_told(client: lockd.Client, other: lockd.Client, shared: Servers, name: str) -> None:
    with client.watch(name) as ends:
        with other.lock(name) as held:
            pass
        event = ends.next(PATIENCE)
        assert event == lockd.Unlocked(name, "RELEASED", held.fence)
        with other.lock(name, loss_raises=False) as held:
            shared.force(name)
            event = ends.next(PATIENCE)
            assert event == lockd.Unlocked(name, "FORCED", held.fence)
    assert ends.next(0) is None
