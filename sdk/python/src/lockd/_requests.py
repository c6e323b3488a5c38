"""What a caller asks for, as calls of the engine; and what both faces make of the answers."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from google.protobuf.duration_pb2 import Duration

from lockd.errors import AutoLease, Invalid, LockdError, LockHeld, LockLost, NotHeld, OutcomeUnknown, ProtocolError
from lockd.v1 import session_service_pb2 as pb

from . import _check, _clock
from ._call import KINDS, Call, Check, NoAnswer, SessionOver
from ._clock import now
from ._hold import UNLOCKED, Grant, Unlocked
from ._settings import ACTOR_BYTES

if TYPE_CHECKING:
    from ._engine import Engine

Kind = Literal["exclusive", "fair", "read", "write", "semaphore"]


_EXCLUSIVE = KINDS["exclusive"]


class LockOptions(TypedDict, total=False):
    """What `lock` and `lock_all` take besides the names. Times are in seconds."""

    wait: float | None
    """The longest wait, reconnecting included; then TimedOut. 0 tries once, and raises LockHeld. None: for ever."""
    lease: float | None
    """A fixed lease, never renewed. None: it is renewed for as long as this client is heard."""
    max_hold: float | None
    """Not with `lease`: so long after the grant the lease is not renewed any more, so that a holder that hangs does not
    keep the lock for ever. It is then lost with LockLost that says `max_hold`, 1 % and 2 ms earlier, for clocks that
    differ. Nothing prolongs it. A server that does not know it is Unsupported."""
    kind: Kind
    """`exclusive` unless it is said, or `semaphore` if permits or limit are."""
    holder: str
    """Makes the lock reentrant for this name in this client. Without it each request is a holder of its own."""
    permits: int
    """Of a semaphore: how many, 1 unless it is said."""
    limit: int
    """Of a semaphore: how many there are. The first request that states it sets it. 0: what was set."""
    annotation: str
    """For people who look at the lock."""
    actor: str
    """The thread of work that asks, so that deadlocks are found. `new_actor` makes one."""
    on_queued: Callable[[int], object] | None
    """Is told how many requests wait before this one, by the thread or task that waits: when it begins to wait, also
    anew after an interruption, and when that is another number."""
    on_held: Callable[[LockHeld], object] | None
    """Is told who is in the way while the lock waits, for people, by the thread or task that waits: at once if the
    server that answers knows, else after a second or more, and again when it is somebody else."""
    loss_raises: bool
    """Whether leaving the block raises LockLost if the lock was lost and the body raised nothing. True unless said."""


@dataclass(frozen=True)
class Item:
    """One of the locks of `lock_all`. What is not set is as the options say."""

    name: str
    kind: Kind | None = None
    permits: int | None = None
    limit: int = 0


@dataclass(frozen=True)
class Info:
    """What the server knows of a name. It may be outdated when it arrives."""

    name: str
    kind: str
    """Empty where it cannot be told. A fair lock for which nobody waits seems an exclusive one."""
    held: bool
    held_by: str
    """Who holds it, as Redis knows the holder. Of several readers one is named; permits have no names."""
    client: str
    """The name of the holder's client, where the replica that answered knows."""
    annotation: str
    fence: int
    """The last one given out, 0 when none is known."""
    ttl: float
    """The remaining time of the lease, in seconds."""
    hold_count: int
    holders: int
    limit: int
    waiters: int
    """On the replica that answered."""
    queued: int
    """In the queue of a fair lock, everywhere."""


@dataclass(frozen=True)
class HeldInfo:
    """A lock that the session holds, as the server tells it."""

    name: str
    kind: str
    holder: str
    fence: int
    remaining: float
    """Seconds until which it is surely held unless it is renewed."""
    count: int
    auto: bool
    permits: int


def new_actor() -> str:
    """An id for `actor` that nobody else has."""
    return secrets.token_urlsafe(18)


def kind_name(kind: int) -> str:
    """How people write it."""
    return next((name for name, value in KINDS.items() if value == kind), "")


def _optional_seconds(what: str, value: Any) -> None:
    if value is not None:
        _check.seconds(what, value, positive=what != "wait")


def _optional_function(what: str, value: Any) -> None:
    if value is not None:
        _check.function(what, value)


def _any(_: str, __: Any) -> None:
    """Of what is checked with the names."""


_OPTIONS: dict[str, Callable[[str, Any], None]] = {
    "wait": _optional_seconds,
    "lease": _optional_seconds,
    "max_hold": _optional_seconds,
    "kind": _any,
    "holder": functools.partial(_check.text, "INVALID_HOLDER"),
    "permits": _any,
    "limit": _any,
    "annotation": functools.partial(_check.text, "INVALID_ANNOTATION"),
    "actor": functools.partial(_check.text, "INVALID_ACTOR", limit=ACTOR_BYTES),
    "on_queued": _optional_function,
    "on_held": _optional_function,
    "loss_raises": _check.flag,
}
"""What each of the LockOptions may be."""


def check_options(o: LockOptions) -> None:
    """Refuses options that cannot be."""
    _check.options("lock", o, _OPTIONS)
    for what, value in o.items():
        _OPTIONS[what](what, value)
    if o.get("lease") is not None and o.get("max_hold") is not None:
        raise Invalid("max_hold must not be given with lease", reason="INVALID_DURATION")


def _check_of_name(name: str) -> Check:
    return "INVALID_NAME", "name", name, "name_bytes"


class Asked:
    """What is to be locked, and how: the same for each request of a lock."""

    def __init__(self, items: Iterable[str | Item], o: LockOptions) -> None:
        check_options(o)
        if isinstance(items, str) or not isinstance(items, Iterable):
            raise TypeError(f"items must be a list of names and Items, not {type(items).__name__}")
        found = [_item(i, o) for i in items]
        if not found:
            raise Invalid("items must not be empty", reason="INVALID_NAME")
        self.special = len(found) > 1 or o.get("max_hold") is not None
        if len(found) == 1:
            self.body = pb.Acquire(**found[0])
        else:
            self.body = pb.Acquire(items=[pb.AcquireItem(**i) for i in found])
        self.checks: list[Check] = [_check_of_name(i["name"]) for i in found]
        if o:
            self._add(o)

    @classmethod
    def one(cls, name: str, o: LockOptions) -> Asked:
        """The same for one name. Most locks have no options."""
        if o:
            return cls([name], o)
        _check.name("name", name)
        asked = cls.__new__(cls)
        asked.body, asked.special = pb.Acquire(name=name, kind=_EXCLUSIVE), False
        asked.checks = [_check_of_name(name)]
        return asked

    def _add(self, o: LockOptions) -> None:
        body = self.body
        body.holder, body.annotation, body.actor = o.get("holder", ""), o.get("annotation", ""), o.get("actor", "")
        for length, field in ((o.get("lease"), body.lease), (o.get("max_hold"), body.max_hold)):
            if length is not None:
                _clock.put(field, length)
        body.tell_holder = o.get("on_held") is not None
        self.checks += [
            ("INVALID_HOLDER", "holder", body.holder, "holder_bytes"),
            ("INVALID_ANNOTATION", "annotation", body.annotation, "annotation_bytes"),
        ]


def acquire(engine: Engine, asked: Asked, o: LockOptions) -> Call:
    """A request for one lock or several."""
    call = Call("acquire", asked.body)
    call.begun, call.checks, call.special = now(), asked.checks, asked.special
    call.changes = call.patient = True
    if o:
        _add_terms(call, engine, o)
    if engine.settings.connect_wait is not None:
        call.until = min(call.until, call.begun + engine.settings.connect_wait)
    return call


def _add_terms(call: Call, engine: Engine, o: LockOptions) -> None:
    call.wants_positions, call.wants_holders = o.get("on_queued") is not None, call.body.tell_holder
    if (wait := o.get("wait")) is not None:
        call.bounded, call.tries = True, wait == 0
        call.once, call.patient = call.tries, not call.tries
        call.end = call.begun + wait
        call.by = call.end + engine.settings.answer_timeout
        call.until = call.by if call.tries else call.end


def tell(engine: Engine, call: Call, o: LockOptions | None) -> None:
    """Calls the functions of the user that want the news of a call."""
    if o is None or not call.news:
        return
    with engine.mu:
        news = list(call.news)
        call.news.clear()
    for one in news:
        f: Any = o.get("on_held" if isinstance(one, LockHeld) else "on_queued")
        f(one)


def _item(i: str | Item, o: LockOptions) -> dict[str, Any]:
    """The fields of an AcquireItem, which are those of an Acquire, too."""
    name, kind, permits, limit = (i.name, i.kind, i.permits, i.limit) if isinstance(i, Item) else (i, None, None, 0)
    _check.name("name", name)
    if kind is None and permits is None and not limit:
        kind, permits, limit = o.get("kind"), o.get("permits"), o.get("limit", 0)
    if permits is not None:
        _check.count("permits", permits)
    _check.count("limit", limit, least=0)
    if kind is None:
        kind = "semaphore" if permits or limit else "exclusive"
    _check.one_of("INVALID_KIND", "kind", kind, KINDS)
    if kind != "semaphore" and (permits or limit):
        raise Invalid(f"permits and limit must not be given for the kind {kind}", reason="INVALID_PERMITS")
    return {"name": name, "kind": KINDS[kind], "permits": permits or 0, "limit": limit}


def question(engine: Engine, kind: str, body: Any, what: str = "name", **terms: Any) -> Call:
    """A request about a name, or a prefix, that needs no lock."""
    by = now() + engine.settings.answer_timeout
    checks = [("INVALID_NAME", what, getattr(body, what), "name_bytes")]
    return Call(kind, body, by=by, until=by, checks=checks, **terms)


def watch(engine: Engine, name: str) -> Call:
    """Has the ends of the holds of a name told."""
    return question(engine, "watch", pb.Watch(name=name), patient=True)


def look(engine: Engine, name: str) -> Call:
    """Asks what is known of a name."""
    _check.name("name", name)
    return question(engine, "look", pb.Look(name=name))


def info(looked: pb.Looked) -> Info:
    """What it answers."""
    s = looked.lock
    return Info(
        s.name, kind_name(s.kind), s.held, s.held_by, s.client, s.annotation, int(s.fence), _clock.seconds(s.ttl),
        s.hold_count, s.holders, s.limit, s.waiters, s.queued,
    )  # fmt: skip


def list_holds(engine: Engine, prefix: str, page: str) -> Call:
    """Asks for a page of what the session holds."""
    return question(engine, "list_holds", pb.ListHolds(prefix=prefix, page_token=page), "prefix")


def held_infos(answer: tuple[pb.HoldList, list[float]]) -> list[HeldInfo]:
    """What it answers."""
    return [
        HeldInfo(
            h.hold.name, kind_name(h.hold.kind), h.hold.holder, int(h.hold.fence), max(deadline - now(), 0),
            h.hold_count, h.auto, h.permits,
        )
        for h, deadline in zip(answer[0].locks, answer[1], strict=True)
    ]  # fmt: skip


def next_page(answer: tuple[pb.HoldList, list[float]], page: str) -> tuple[str, bool]:
    """Which page follows, and whether one does."""
    after = answer[0].next_page_token
    if after and after == page:
        raise ProtocolError("a page is followed by itself")
    return after, bool(after)


def set_limit(engine: Engine, name: str, limit: int) -> Call:
    """Sets how many permits a semaphore has."""
    _check.name("name", name)
    _check.count("limit", limit)
    return question(engine, "set_limit", pb.SetLimit(name=name, limit=limit), changes=True, once=True)


# About a grant.


def not_held(cause: Exception) -> Exception:
    """What a caller is told of a lock that has ended."""
    if isinstance(cause, Unlocked):
        return NotHeld("the lock was unlocked before")
    return cause.with_traceback(None)


def unlock(g: Grant) -> Call:
    """Begins to release, or goes on with a release whose answer did not come, or raises what ended the lock before. The
    lock has ended here before the server is asked, so nobody else can hold the name while it still seems held."""
    engine, cause = g.session.engine, g.err()
    by = now() + engine.settings.answer_timeout
    if cause is None:
        call = g.call("release", pb.Release, by)
        with engine.mu:
            if g.session.unlock(g, call):
                return call
            cause = g.cause
    if g.release is not None:
        call, g.release = g.release, None
        call.by = by
        return call
    raise not_held(cause or UNLOCKED)


def unlocked(g: Grant, call: Call) -> None:
    """What became of a release, of which the caller waits no longer."""
    call.tell = None
    if not call.settled or isinstance(call.error, NoAnswer | SessionOver):
        g.release = call  # for the next unlock
        raise OutcomeUnknown(f"the answer to the release of {g.hold.key[0]!r} did not come") from call.error
    call.result()


def extend(g: Grant, lease: float | None, *, may_shorten: bool = False, if_fixed: bool = False) -> Call:
    """Asks for another lease; None is one that is renewed."""
    more: dict[str, Any] = {"may_shorten": may_shorten}
    if lease is not None:
        _check.seconds("lease", lease, positive=True)
        more["lease"] = Duration()
        _clock.put(more["lease"], lease)
        least = _clock.seconds(g.session.limits.min_lease)
        if may_shorten and lease < least:  # it would count here before it is refused
            raise Invalid(f"lease must be at least {least} s, not {lease}", reason="INVALID_DURATION")
    if (cause := g.err()) is not None:
        raise not_held(cause)
    if if_fixed and g.hold.auto:
        raise AutoLease()
    return g.call("extend", pb.Extend, now() + g.session.engine.settings.answer_timeout, **more)


def keep_permits(g: Grant, n: int) -> Call:
    """Releases permits, all but n."""
    _check.count("n", n)
    if g.hold.key[1] != KINDS["semaphore"]:
        raise Invalid("only a semaphore has permits", reason="INVALID_PERMITS")
    if (cause := g.err()) is not None:
        raise not_held(cause)
    return g.call("release", pb.Release, now() + g.session.engine.settings.answer_timeout, keep=n)


def changed(g: Grant, call: Call) -> Any:
    """What became of extend or keep_permits."""
    cause = g.err()
    if isinstance(call.error, NoAnswer):
        raise OutcomeUnknown() from (not_held(cause) if cause is not None else None)
    if cause is not None:
        raise not_held(cause)
    return call.result()


def leaving(error: BaseException, body: BaseException | None, loss_raises: bool) -> LockdError | None:
    """What leaving a block raises if the release raised an error: nothing that hides the body's own exception, and a
    loss only by choice."""
    if not isinstance(error, LockLost | NotHeld):
        return None
    if body is not None:
        if hasattr(body, "add_note"):
            body.add_note(f"besides: {error}")
        return None
    return error if loss_raises else None
