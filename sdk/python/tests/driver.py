"""The driver of the conformance scenarios: commands on standard input, answers and events on standard output, one JSON
object a line. It uses the face of asyncio, as commands run side by side; times are in ms."""

from __future__ import annotations

import asyncio
import ctypes
import json
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lockd
import lockd.aio
from lockd.election import AsyncTerm

# The SDK's own words; others are the reasons of the server.
WORDS: list[tuple[type[Exception], str]] = [
    (lockd.LockHeld, "HELD"),
    (lockd.OutcomeUnknown, "OUTCOME_UNKNOWN"),  # also of a wait that timed out without an answer
    (lockd.TimedOut, "TIMED_OUT"),
    (lockd.Cancelled, "CANCELLED"),
    (lockd.LockLost, "LOST"),
    (lockd.NotHeld, "NOT_HELD"),
    (lockd.Unavailable, "UNAVAILABLE"),
    (lockd.ClientClosed, "CLOSED"),
    (lockd.DeadlockFound, "DEADLOCK"),
]
Command = dict[str, Any]


def say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


class Unsupported(Exception):
    """What this driver cannot do."""


class Interrupt(BaseException):
    """Ends the wait of a thread, as a signal does."""


class ThreadsWait:
    """The wait of a thread for a lock."""

    def __init__(self) -> None:
        self._mu = threading.Lock()  # guards the fields below
        self._thread: int | None = None
        self._over = False

    def acquire(self, lock: lockd.Lock[lockd.Held]) -> lockd.Held | None:
        """Is called by the thread. None if it was interrupted."""
        held = None
        try:
            with self._mu:
                if self._over:
                    return None
                self._thread = threading.get_ident()
            try:
                held = lock.acquire()
            finally:
                self._end()
        except Interrupt:
            self._end()
            if held is not None:  # it had returned
                held.unlock()
            return None
        return held

    def _end(self) -> None:
        with self._mu:
            self._over = True

    def interrupt(self) -> None:
        """Ends it, once, if it goes on."""
        with self._mu:
            if self._thread is not None and not self._over:
                of, raises = ctypes.c_ulong(self._thread), ctypes.py_object(Interrupt)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(of, raises)
            self._over = True


class Driver:
    def __init__(self) -> None:
        self.clients: dict[str, lockd.aio.Client] = {}
        self.of_ttl: dict[tuple[str, float], str] = {}  # names, by that of the client they are of, and their TTL
        self.holds: dict[str, lockd.aio.Held] = {}
        self.jobs: dict[str, asyncio.Task[Any]] = {}  # that go on: waits by id, watches and observers by name
        self.loop = asyncio.get_running_loop()
        self.threads = ThreadPoolExecutor(64)

    async def run(self) -> None:
        """Reads commands until there are no more."""
        reader = asyncio.StreamReader(limit=1 << 20)
        await self.loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        tasks: set[asyncio.Task[None]] = set()
        while line := await reader.readline():
            command = json.loads(line)
            task = asyncio.create_task(self.answer(command))
            self.jobs[f"id {command['id']}"] = task
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            await asyncio.sleep(0)  # it begins before the next one
        await asyncio.gather(*(c.close() for c in self.clients.values()), return_exceptions=True)

    async def answer(self, c: Command) -> None:
        """Carries one command out."""
        try:
            do = getattr(self, "do_" + c["op"], None)
            if do is None:
                raise Unsupported(c["op"])
            say(id=c["id"], ok=await do(c) or {})
        except asyncio.CancelledError:
            say(id=c["id"], error="CANCELLED", message="the task was cancelled")
        except lockd.LockdError as e:
            word = next((w for kind, w in WORDS if isinstance(e, kind)), e.reason)
            say(id=c["id"], error=word, message=str(e), detail=detail(e))
        except Unsupported as e:
            say(id=c["id"], error="UNSUPPORTED", message=str(e))
        except Exception as e:
            say(id=c["id"], error="INTERNAL", message=repr(e))

    # Clients.

    async def do_connect(self, c: Command) -> None:
        named = c["client"]

        def told(s: lockd.Status) -> None:
            of = self.of_ttl.get((named, s.ttl), named)
            self.loop.call_soon_threadsafe(lambda: say(event="status", client=of, status=s.state))

        options: lockd.ClientOptions = {
            "name": c.get("name", ""),
            "session_ttl": seconds(c.get("session_ttl")),
            "actor": c.get("actor", ""),
            "fail_on_deadlock": c.get("fail_on_deadlock", False),
            "release_on_disconnect": c.get("release_on_disconnect", False),
            "token_file": c.get("token_file", ""),
            "on_status": told,
        }
        if c.get("answer_timeout"):
            options["answer_timeout"] = c["answer_timeout"] / 1000
        self.clients[named] = lockd.aio.connect(c["addrs"], **options)

    async def do_with_ttl(self, c: Command) -> None:
        ttl = c["session_ttl"] / 1000
        self.of_ttl[c["client"], ttl] = c["other"]
        self.clients[c["other"]] = self.clients[c["client"]].with_ttl(ttl)

    async def do_close(self, c: Command) -> None:
        await self.clients[c["client"]].close()

    # Locks.

    def options(self, c: Command) -> lockd.LockOptions:
        o: lockd.LockOptions = {"wait": seconds(c.get("wait")), "lease": seconds(c.get("lease"))}
        o["max_hold"] = seconds(c.get("max_hold"))
        for key in ("kind", "holder", "permits", "limit", "annotation", "actor"):
            if c.get(key):
                o[key] = c[key]
        o["on_queued"] = lambda ahead: say(event="queued", id=c["id"], ahead=ahead)
        return o

    def keep(self, name: str, held: lockd.aio.Held) -> None:
        self.holds[name] = held
        held.on_lost(lambda e: say(event="lost", hold=name, **detail(e)))

    async def do_lock(self, c: Command) -> Command:
        client, options = self.clients[c["client"]], self.options(c)
        if c.get("way"):
            held = await self.wait_in_a_thread(lockd.Client(client._engine).lock(c["name"], **options))
        else:
            held = await client.lock(c["name"], **options).acquire()
        self.keep(c["hold"], held)
        return {"fence": held.fence}

    async def wait_in_a_thread(self, lock: lockd.Lock[lockd.Held]) -> lockd.aio.Held:
        """Waits by the blocking face, and has the thread interrupted when the task is cancelled."""
        wait = ThreadsWait()
        granted = self.loop.run_in_executor(self.threads, wait.acquire, lock)
        try:
            held = await asyncio.shield(granted)
        except asyncio.CancelledError:
            wait.interrupt()
            held = await granted
        if held is None:
            raise asyncio.CancelledError
        return lockd.aio.Held(held._engine, held._grants)

    async def do_lock_all(self, c: Command) -> Command:
        items = [lockd.Item(i["name"], i.get("kind"), i.get("permits"), i.get("limit", 0)) for i in c["items"]]
        both = await self.clients[c["client"]].lock_all(items, **self.options(c)).acquire()
        for name, held in zip(c["holds"], both.all, strict=True):
            self.keep(name, held)
        return {"fences": [held.fence for held in both.all]}

    async def do_cancel(self, c: Command) -> None:
        self.jobs[f"id {c['target']}"].cancel()

    async def do_unlock(self, c: Command) -> None:
        await self.holds[c["hold"]].unlock()

    async def do_extend(self, c: Command) -> None:
        await self.holds[c["hold"]].extend(c["lease"] / 1000)

    async def do_shorten(self, c: Command) -> None:
        await self.holds[c["hold"]].shorten(c["lease"] / 1000)

    async def do_make_fixed(self, c: Command) -> None:
        await self.holds[c["hold"]].make_fixed(c["lease"] / 1000)

    async def do_make_auto(self, c: Command) -> None:
        await self.holds[c["hold"]].make_auto()

    async def do_keep_permits(self, c: Command) -> Command:
        return {"left": await self.holds[c["hold"]].keep_permits(c["permits"])}

    async def do_state(self, c: Command) -> Command:
        held = self.holds[c["hold"]]
        if held.is_held:
            return {"held": True, "fence": held.fence, "remaining": round(held.remaining() * 1000)}
        return {"held": False, "reason": held.loss.lost_reason if held.loss else "UNLOCKED"}

    # Questions.

    async def do_look(self, c: Command) -> Command:
        i = await self.clients[c["client"]].look(c["name"])
        return {"held": i.held, "fence": i.fence, "kind": i.kind, "waiting": max(i.waiters, i.queued)}

    async def do_holds(self, c: Command) -> Command:
        return {"names": sorted([h.name async for h in self.clients[c["client"]].holds(c.get("prefix", ""))])}

    async def do_set_limit(self, c: Command) -> Command:
        return {"previous": await self.clients[c["client"]].set_limit(c["name"], c["limit"])}

    async def do_watch(self, c: Command) -> None:
        ends = await self.clients[c["client"]].watch(c["name"]).begin()

        async def tell() -> None:
            try:
                async for e in ends:
                    say(event="unlocked", watch=c["watch"], **vars(e))
            finally:
                ends.close()

        self.jobs[f"watch {c['watch']}"] = asyncio.create_task(tell())

    async def do_unwatch(self, c: Command) -> None:
        self.jobs[f"watch {c['watch']}"].cancel()

    # Elections.

    async def do_campaign(self, c: Command) -> Command:
        election = self.clients[c["client"]].election(c["election"])
        terms = election.campaign(
            c.get("candidate", ""), annotation=c.get("annotation", ""), wait=seconds(c.get("wait"))
        )
        term = await terms.acquire()
        self.keep(c["term"], term)
        return {"fence": term.fence}

    async def do_resign(self, c: Command) -> None:
        term = self.holds[c["term"]]
        assert isinstance(term, AsyncTerm)
        await term.resign()

    async def do_observe(self, c: Command) -> None:
        async def tell() -> None:
            async for leader in self.clients[c["client"]].election(c["election"]).observe():
                of = {"name": leader.name, "annotation": leader.annotation, "fence": leader.fence}
                say(event="leader", observe=c["observe"], **of)

        self.jobs[f"observe {c['observe']}"] = asyncio.create_task(tell())


def detail(e: lockd.LockdError) -> Command:
    """What else is known."""
    of: dict[type[Exception], Callable[[Any], Command]] = {
        lockd.LockLost: lambda e: {"reason": e.lost_reason, "by": e.by, "why": e.why, "max_hold": e.max_hold},
        lockd.LockHeld: lambda e: {
            "name": e.name,
            "held_by": e.held_by,
            "client": e.client,
            "annotation": e.annotation,
            "peer": e.peer,
            **({} if e.held_for is None else {"held_for": round(e.held_for * 1000)}),
            "retry_after": round((e.retry_after or 0) * 1000),
        },
        lockd.LimitMismatch: lambda e: {"limit": e.limit},
        lockd.Forbidden: lambda e: {"client": e.client, "right": e.right, "name": e.name},
    }
    return next((tell(e) for kind, tell in of.items() if isinstance(e, kind)), {})


if __name__ == "__main__":

    async def main() -> None:
        await Driver().run()

    asyncio.run(main())
