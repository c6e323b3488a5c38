"""What cannot be is refused where it is said, and nothing is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import lockd
import lockd.aio
from lockd import _requests

NAN, INFINITE = float("nan"), float("inf")
NOBODY = "127.0.0.1:1"
"""Nobody answers there, so that a call that asked would say Unavailable or wait."""

WRONG_LOCK: list[tuple[str, Any, type[Exception]]] = [
    ("wait", -1, ValueError),
    ("wait", NAN, ValueError),
    ("wait", INFINITE, ValueError),
    ("wait", "5", TypeError),
    ("wait", True, TypeError),
    ("lease", 0, ValueError),
    ("lease", -0.5, ValueError),
    ("lease", NAN, ValueError),
    ("max_hold", 0, ValueError),
    ("max_hold", 1e300, ValueError),
    ("permits", 0, ValueError),
    ("permits", -1, ValueError),
    ("permits", 1.5, TypeError),
    ("permits", 2**40, ValueError),
    ("limit", -1, ValueError),
    ("kind", "exklusive", ValueError),
    ("kind", 3, ValueError),
    ("kind", ["fair"], ValueError),
    ("holder", 7, TypeError),
    ("annotation", b"bytes", TypeError),
    ("annotation", "\ud800", ValueError),
    ("actor", "x" * 129, ValueError),
    ("on_queued", "print", TypeError),
    ("on_held", 1, TypeError),
    ("loss_raises", "no", TypeError),
    ("wiat", 5, TypeError),
]
WRONG_CLIENT: list[tuple[str, Any, type[Exception]]] = [
    ("name", None, TypeError),
    ("name", "x" * 129, ValueError),
    ("labels", ["a"], TypeError),
    ("labels", {"a": 1}, TypeError),
    ("labels", {"a": "x" * 256}, ValueError),
    ("labels", {str(i): "" for i in range(33)}, ValueError),
    ("session_ttl", 0, ValueError),
    ("session_ttl", NAN, ValueError),
    ("session_ttl", "30", TypeError),
    ("answer_timeout", 0, ValueError),
    ("answer_timeout", -1, ValueError),
    ("answer_timeout", NAN, ValueError),
    ("answer_timeout", None, TypeError),
    ("connect_wait", -1, ValueError),
    ("actor", 5, TypeError),
    ("fail_on_deadlock", 1, TypeError),
    ("release_on_disconnect", "yes", TypeError),
    ("tls", True, TypeError),
    ("token_file", 3, TypeError),
    ("on_status", "print", TypeError),
    ("timeout", 3, TypeError),
]


def refused(argument: str, error: type[Exception], call: Callable[..., object], *args: Any, **options: Any) -> None:
    """Has a call refused with an error that names the argument, and what is allowed."""
    with pytest.raises(error, match=rf"\b{argument}\b.* must |no option '{argument}'") as e:
        call(*args, **options)
    assert error is TypeError or isinstance(e.value, lockd.Invalid)


def same(of: Any) -> Any:
    return of


@pytest.mark.parametrize(("argument", "value", "error"), WRONG_LOCK)
def test_options_of_locks(argument: str, value: Any, error: type[Exception]) -> None:
    options: Any = {argument: value}
    for connect in (lockd.connect, lockd.aio.connect):
        c = connect(NOBODY)
        refused(argument, error, c.lock, "n", **options)
        refused(argument, error, c.lock_all, ["n", "m"], **options)
    if argument not in ("kind", "permits", "limit"):
        refused(argument, error, lockd.connect(NOBODY).locked, "n", **options)


@pytest.mark.parametrize(("argument", "value", "error"), WRONG_CLIENT)
def test_options_of_clients(argument: str, value: Any, error: type[Exception]) -> None:
    options: Any = {argument: value}
    refused(argument, error, lockd.connect, NOBODY, **options)
    refused(argument, error, lockd.aio.connect, NOBODY, **options)


def test_what_excludes_each_other() -> None:
    with lockd.connect(NOBODY) as c:
        refused("max_hold", ValueError, c.lock, "n", lease=5, max_hold=5)
        refused("permits", ValueError, c.lock, "n", kind="fair", permits=1)
        refused("limit", ValueError, c.lock_all, [lockd.Item("n", "read", limit=1)])


def test_names(client: lockd.Client) -> None:
    wrong: Any
    for wrong, error in (("", ValueError), ("\ud800", ValueError), (None, TypeError), (b"n", TypeError)):
        with lockd.connect(NOBODY) as c:
            refused("name", error, c.lock, wrong)
            refused("name", error, c.lock_all, ["n", wrong])
            refused("name", error, c.look, wrong)
            refused("name", error, c.set_limit, wrong, 1)
            refused("name", error, c.watch, wrong)
            refused("name", error, c.election, wrong)
            refused("name", error, c.locked(same)(same), wrong)
            if wrong != "":
                refused("prefix", error, next, c.holds(wrong))
    with lockd.connect(NOBODY) as c:
        refused("items", ValueError, c.lock_all, [])
        refused("items", TypeError, c.lock_all, "n")
        refused("limit", ValueError, c.set_limit, "n", 0)
        refused("id", TypeError, c.election("n").campaign, None)
    long = "x" * 100_000  # how long a name may be is for the server to say
    refused("name", ValueError, client.lock(long).acquire)
    refused("name", ValueError, client.look, long)
    refused("name", ValueError, client.watch, long)
    refused("annotation", ValueError, client.lock("n", annotation=long).acquire)
    refused("holder", ValueError, client.lock("n", holder=long).acquire)


def test_addresses() -> None:
    wrong: Any
    for wrong, error in (
        ("", ValueError), ([], ValueError), ("a:b", ValueError), ("h:0", ValueError), (["h", ""], ValueError),
        (7, TypeError), (None, TypeError), ([7], TypeError),
    ):  # fmt: skip
        with pytest.raises(error, match="address"):
            lockd.connect(wrong)


def test_every_option_is_checked() -> None:
    assert set(_requests._OPTIONS) == _requests.LockOptions.__optional_keys__


def test_what_is_asked_of_a_hold(client: lockd.Client, name: str) -> None:
    with client.lock(name, lease=60) as held:
        for wrong, error in ((0, ValueError), (-1, ValueError), (NAN, ValueError), ("5", TypeError)):
            for call in (held.extend, held.shorten, held.make_fixed):
                refused("lease", error, call, wrong)
        refused("call", TypeError, held.on_lost, None)
        for wrong, error in ((NAN, ValueError), ("5", TypeError)):
            refused("timeout", error, held.lost.wait, wrong)
        assert not held.lost.wait(-1) and 0 < held.remaining() < 60
    with client.lock(name + "/permits", permits=2, limit=2) as two:
        for wrong, error in ((0, ValueError), (-1, ValueError), (1.0, TypeError)):
            refused("n", error, two.keep_permits, wrong)
    with client.watch(name) as ends:
        refused("timeout", ValueError, ends.next, NAN)


def test_what_is_asked_of_a_hold_in_asyncio(address: str, name: str) -> None:
    async def main() -> None:
        async with lockd.aio.connect(address) as c, c.lock(name, lease=60) as held:
            with pytest.raises(ValueError, match="lease must"):
                await held.extend(NAN)
            with pytest.raises(ValueError, match="timeout must"):
                await held.lost.wait(NAN)
            with pytest.raises(TypeError, match="name must"):
                c.watch(None)  # type: ignore[arg-type]

    asyncio.run(main())
