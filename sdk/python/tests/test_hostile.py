"""A server that behaves wrongly hurts nobody: calls keep their bounds, and raise nothing but the SDK's own errors;
after close nothing is left."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from conftest import PATIENCE, until
from fake import LONG, VALID, Fake, Hook, Stream
from google.protobuf.duration_pb2 import Duration

import lockd
import lockd.aio
from lockd.v1 import lock_pb2, session_service_pb2 as pb

FAR, PAST = Duration(seconds=10**17), Duration(seconds=-(10**17), nanos=-1)
TEXT = "x" * (1 << 20)
UNKNOWN = 10**18
"""A request that nobody made."""
HOLD = lock_pb2.Hold(name="n", kind=lock_pb2.LOCK_KIND_EXCLUSIVE, holder="#1", fence=7)
FAILURE = pb.Failure(code=77, message=TEXT, reason=TEXT, metadata={"limit": "9" * 10_000})
ASKED = ("acquire", "release", "extend", "look", "list_holds", "set_limit", "watch", "unwatch", "cancel")
ANSWERS: dict[str, Any] = {
    "opened": pb.Opened(session_id="other"),
    "granted": pb.Granted(holds=[HOLD], validity=VALID, auto=True),
    "not_granted": lock_pb2.NotGranted(cause=99, held_by=TEXT, held_for=FAR, retry_after=PAST),  # type: ignore[arg-type]
    "queued": pb.Queued(position=4_000_000_000, held_by=TEXT, held_for=PAST),
    "released": pb.Released(remaining=4_000_000_000),
    "extended": pb.Extended(validity=lock_pb2.Validity(anchor=UNKNOWN, anchor_age=PAST, remaining=FAR)),
    "result": pb.Result(),
    "looked": pb.Looked(),
    "hold_list": pb.HoldList(locks=[pb.HeldLock()] * 3, next_page_token="again"),
    "limit_set": pb.LimitSet(previous=4_000_000_000),
}
PUSHES: list[dict[str, Any]] = [
    {"heartbeat_ack": pb.HeartbeatAck(sent_id=UNKNOWN, valid_for=PAST)},
    {"heartbeat_ack": pb.HeartbeatAck(valid_for=FAR)},
    {"lost": pb.Lost(hold=HOLD, reason=99, cause=99, by=TEXT, why=TEXT)},  # type: ignore[arg-type]
    {"lost": pb.Lost()},
    {"at_risk": pb.AtRisk(validity=lock_pb2.Validity(remaining=PAST))},
    {"safe": pb.Safe()},
    {"unlocked": pb.Unlocked(name="n", hold=TEXT, merged=4_000_000_000)},
    {"unlocked": pb.Unlocked(name=TEXT, cause=99)},  # type: ignore[arg-type]
    {"unwatched": pb.Unwatched(name="unknown", failure=FAILURE)},
    {"draining": pb.Draining()},
    {"draining": pb.Draining(reconnect_within=FAR)},
    {"draining": pb.Draining(reconnect_within=PAST)},
    {"closing": pb.Closing(failure=FAILURE)},
    {"batch": pb.ResponseBatch()},
    {},
]


def pushes(message: dict[str, Any]) -> Hook:
    """Sends something unasked, now and then."""
    return lambda st, r: r.HasField("open") or (st.send(**message) and False)


def asked(r: pb.SessionRequest) -> bool:
    return r.WhichOneof("message") in ASKED


def at_open(**fields: Any) -> Hook:
    """Opens, and says something odd there."""

    def hook(st: Stream, r: pb.SessionRequest) -> object:
        return r.HasField("open") and st.send(r.request_id, opened=pb.Opened(**{**ORDINARY, **fields}))

    return hook


def answers(kind: str) -> Hook:
    """Answers all with the same."""
    return lambda st, r: asked(r) and st.send(r.request_id, **{kind: ANSWERS[kind]})


def twice(st: Stream, r: pb.SessionRequest) -> None:
    """Answers, and so does the server."""
    if asked(r):
        st.server.answer(st, r)


def grants_unasked(st: Stream, r: pb.SessionRequest) -> None:
    if asked(r):
        st.send(UNKNOWN, granted=ANSWERS["granted"])
        st.send(granted=ANSWERS["granted"])


SECOND = Duration(seconds=1)
ORDINARY: dict[str, Any] = {
    "session_id": "s", "resume_token": "t", "session_ttl": LONG, "heartbeat_interval": SECOND,
}  # fmt: skip
TOO_LONG = pb.Result(failure=pb.Failure(code=3, message=TEXT * 20))
OPENINGS: dict[str, Hook] = {
    "never answers Open": lambda _, r: r.HasField("open"),
    "refuses Open oddly": lambda st, r: r.HasField("open") and st.send(closing=pb.Closing(failure=FAILURE)),
    "answers Open with Looked": lambda st, r: r.HasField("open") and st.send(r.request_id, looked=pb.Looked()),
    "ends at once": lambda st, _: st.end(),
    "ends after Opened": lambda st, r: asked(r) and st.end(),
    "no interval": at_open(heartbeat_interval=Duration()),
    "a short interval": at_open(heartbeat_interval=Duration(nanos=1)),
    "a long interval": at_open(heartbeat_interval=FAR),
    "a negative TTL": at_open(session_ttl=PAST),
    "a short TTL": at_open(session_ttl=Duration(nanos=1)),
    "a long TTL": at_open(session_ttl=FAR),
    "tiny limits": at_open(limits=pb.Limits(name_bytes=1, frame_bytes=1, names_per_acquire=1)),
    "no session": at_open(session_id="", resume_token=""),
    "unknown holds": at_open(resumed=[pb.HeldLock(hold=HOLD)], lost=[pb.Lost(hold=HOLD), pb.Lost()]),
}
WRONG: dict[str, dict[str, Hook]] = {
    "openings": OPENINGS,
    "answers": {
        "none": lambda _, r: asked(r),
        "a failure": lambda st, r: asked(r) and st.send(r.request_id, result=pb.Result(failure=FAILURE)),
        "too long": lambda st, r: asked(r) and st.send(r.request_id, result=TOO_LONG),
        "twice": twice,
        "grants unasked": grants_unasked,
        **{kind: answers(kind) for kind in ANSWERS},
    },
    "pushes": {f"{i}: {''.join(message)}": pushes(message) for i, message in enumerate(PUSHES)},
}


def watched(c: lockd.Client) -> None:
    with c.watch("n") as ends:
        ends.next(0.05)


def changed(c: lockd.Client) -> None:
    with c.lock("n", permits=2, limit=2, wait=0.2, lease=30) as held:
        quietly(held.extend, 40)
        quietly(held.shorten, 20)
        quietly(held.make_auto)
        quietly(held.keep_permits, 1)


def quietly(call: Callable[..., object], *args: object) -> None:
    """Nothing else may be raised."""
    try:
        call(*args)
    except lockd.LockdError as e:
        assert str(e) and len(repr(e)) < 10_000


def used(address: str) -> weakref.ref[Any]:
    """Uses a client for all that there is, and closes it. Returns what should not be left of it."""
    c = lockd.connect(address, answer_timeout=0.3)
    for call in (
        lambda: c.lock("n", wait=0).acquire().unlock(), lambda: c.lock("n", wait=0.2).acquire().check(),
        lambda: c.lock_all(["n", "m"], wait=0.2).acquire().unlock(), lambda: c.look("n"), lambda: list(c.holds()),
        lambda: c.set_limit("n", 3), lambda: watched(c), lambda: changed(c), lambda: c.election("n").leader(), c.close,
    ):  # fmt: skip
        quietly(call)
    return weakref.ref(c._engine)


async def used_by_a_loop(address: str) -> None:
    c = lockd.aio.connect(address, answer_timeout=0.3)
    for call in (
        lambda: c.lock("n", wait=0).acquire(), lambda: c.lock("n", wait=0.2).acquire(), lambda: c.look("n"),
        lambda: c.set_limit("n", 3), lambda: c.watch("n").begin(), c.close,
    ):  # fmt: skip
        try:
            await call()
        except lockd.LockdError as e:
            assert str(e)


@pytest.mark.parametrize("group", WRONG)
def test_servers_that_behave_wrongly(group: str) -> None:
    before = set(threading.enumerate())
    left: list[weakref.ref[Any]] = []
    errors: list[tuple[str, BaseException]] = []

    def use(what: str, wrong: Hook) -> None:
        try:
            with Fake(wrong) as fake:
                left.append(used(fake.address))
                asyncio.run(used_by_a_loop(fake.address))
        except BaseException as e:
            errors.append((what, e))

    users = [threading.Thread(target=use, args=of, name=of[0], daemon=True) for of in WRONG[group].items()]
    for user in users:
        user.start()
    end = time.monotonic() + PATIENCE
    for user in users:
        user.join(max(end - time.monotonic(), 0))
    assert [user.name for user in users if user.is_alive()] == [] and errors == []
    until("no thread is left", lambda: gc.collect() >= 0 and set(threading.enumerate()) <= before)
    until("nothing is left", lambda: gc.collect() >= 0 and all(of() is None for of in left))


def test_who_does_not_listen_is_told_little() -> None:
    told: list[lockd.Status] = []
    listens = threading.Event()

    def listen(status: lockd.Status) -> None:
        listens.wait(PATIENCE)
        told.append(status)

    def flood(st: Stream, r: pb.SessionRequest) -> None:
        if r.HasField("acquire"):
            for i in range(1000):
                st.send(at_risk=pb.AtRisk(validity=lock_pb2.Validity(remaining=Duration(seconds=3600 + i))))

    with Fake(flood) as fake, lockd.connect(fake.address, on_status=listen, answer_timeout=PATIENCE) as c:
        c.lock("n", wait=0).acquire()  # its answer comes after the flood
        listens.set()
        until("all is told", lambda: not c._engine._news)
    assert len(told) <= 66 and max(s.valid_for for s in told) > 4500


def test_a_server_that_never_answers_fills_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockd._session.MOST_PENDING", 10)
    with Fake(lambda _, r: asked(r)) as fake, lockd.connect(fake.address, answer_timeout=0.1) as c:
        tried: list[lockd.LockdError] = []
        while len(tried) < 100 and not (tried and isinstance(tried[-1], lockd.QuotaReached)):
            with pytest.raises((lockd.OutcomeUnknown, lockd.Unavailable, lockd.QuotaReached)) as e:
                c.lock("n", wait=0).acquire()
            tried.append(e.value)
    assert tried[-1].reason == "QUOTA_REQUESTS"
    # What was not sent, as the connection takes its time, is not pending.
    assert len([e for e in tried if isinstance(e, lockd.OutcomeUnknown)]) >= 10
