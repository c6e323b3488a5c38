"""A session outlives what happens to servers and processes, or its locks are known to be lost."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from conftest import PATIENCE, Servers, free_port, pick, renewed, sockets, until

import lockd
from lockd.testing import LockdServer


def test_a_lock_is_renewed(servers: Servers, name: str) -> None:
    ttl, server = 7, servers.start()
    with lockd.connect(server.address, session_ttl=ttl, answer_timeout=PATIENCE) as c, c.lock(name) as held:
        for _ in range(2):
            renewed(held, ttl)
            assert held.is_held and held.remaining() < ttl
        until("heartbeats are sent", lambda: (s := c._engine.session) and s.stream and s.stream.beats._last)


def test_work_goes_on_at_another_replica(servers: Servers, name: str) -> None:
    one, two = servers.start(), servers.start()
    states: list[str] = []
    told = lambda s: states.append(s.state)  # noqa: E731
    c = lockd.connect([one.address, two.address], on_status=told, answer_timeout=PATIENCE)
    with c, c.lock(name) as held, c.watch(name) as ends:
        fence = held.fence
        one.stop()
        until("the session goes on", lambda: states.count("CONNECTED") == 2)
        assert (held.fence, held.is_held) == (fence, True)
        assert [h.fence for h in c.holds(name)] == [fence]
        event = ends.next(PATIENCE)
        assert event is not None and event.gap


def test_a_watch_ends_when_the_client_is_thrown_out(tmp_path: Path, name: str) -> None:
    clients, token = tmp_path / "clients.yaml", tmp_path / "token"
    token.write_text("secret of ci".replace(" ", "-"))
    digest = hashlib.sha256(token.read_bytes()).hexdigest()
    other = "clients:\n- {name: other, token_sha256: [" + "0" * 64 + "], lock: ['*']}\n"
    clients.write_text(other + "- {name: ci, token_sha256: [" + digest + "], lock: ['*']}\n")
    env = {"LOCKD_SECURITY_CLIENTS_FILE": str(clients), "LOCKD_STORE_KIND": "memory"}
    with (
        LockdServer(env=env) as server,
        lockd.connect(server.address, token_file=str(token), answer_timeout=4) as c,
        c.watch(name) as ends,
    ):
        clients.write_text(other)
        with pytest.raises(lockd.Unauthenticated):
            while ends.next(PATIENCE):
                pass


def test_a_request_that_waits_goes_on_at_another_replica(servers: Servers, name: str) -> None:
    one, two = servers.start(), servers.start()
    waits, fences = threading.Event(), []
    with lockd.connect(two.address) as holder, lockd.connect([one.address, two.address]) as c:
        held = holder.lock(name).acquire()

        def wait() -> None:
            with c.lock(name, on_queued=lambda _: waits.set()) as mine:
                fences.append(mine.fence)

        thread = threading.Thread(target=wait)
        thread.start()
        assert waits.wait(PATIENCE)
        one.stop()
        until("it waits there", lambda: holder.look(name).waiters == 1)
        held.unlock()
        thread.join()
        assert fences[0] > held.fence


def test_a_drained_replica_is_left(servers: Servers, name: str) -> None:
    one, two = servers.start(), servers.start()
    with lockd.connect([one.address, two.address], answer_timeout=PATIENCE) as c, c.lock(name) as held:
        one.process.terminate()
        assert one.process.wait(PATIENCE) == 0
        assert [h.fence for h in c.holds(name)] == [held.fence]
        held.check()


def test_a_rolling_restart_is_not_noticed(servers: Servers, name: str) -> None:
    ports = [free_port() for _ in range(3)]
    replicas = [servers.start(LOCKD_LISTEN=f"127.0.0.1:{port}") for port in ports]
    ends, errors = threading.Event(), []

    def work(c: lockd.Client, i: int) -> None:
        try:
            with c.lock(f"{name}/{i}") as mine:
                while not ends.is_set():
                    with c.lock(f"{name}/shared/{i % 4}"):
                        mine.check()
        except Exception as e:
            errors.append(e)

    with lockd.connect([r.address for r in replicas], answer_timeout=PATIENCE) as c:
        threads = [threading.Thread(target=work, args=[c, i]) for i in range(pick(4, 32))]
        for t in threads:
            t.start()
        for port, replica in zip(ports, replicas, strict=True):
            replica.process.terminate()
            assert replica.process.wait(PATIENCE) == 0
            servers.start(LOCKD_LISTEN=f"127.0.0.1:{port}")
        ends.set()
        for t in threads:
            t.join()
    assert errors == []


def test_a_client_that_is_cut_off_knows_it_first(servers: Servers, name: str) -> None:
    server = servers.start(LOCKD_SESSION_TTL="4s")
    with lockd.connect(server.address, answer_timeout=1) as c:
        held = c.lock(name, loss_raises=False).acquire()
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            begun = time.monotonic()
            assert held.lost.wait(PATIENCE)
            assert held.loss is not None and held.loss.lost_reason == "DEADLINE_PASSED"
            assert held.remaining() == 0 and time.monotonic() - begun < PATIENCE
        finally:
            os.kill(server.process.pid, signal.SIGCONT)


STOPPED = """
import os, signal, sys, time
import lockd
from lockd.testing import LockdServer
with lockd.connect(sys.argv[1], session_ttl=1) as c:
    held = c.lock(sys.argv[2], loss_raises=False).acquire()
    print("held", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    print("held" if held.is_held else held.loss.lost_reason, flush=True)
    held.lost.wait()
"""


def test_a_process_that_was_stopped_learns_of_the_loss_first(address: str, client: lockd.Client, name: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", STOPPED, address, name], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    with client.lock(name):  # somebody else has it now
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() in ("DEADLINE_PASSED\n", "EXPIRED\n")
        assert process.wait(PATIENCE) == 0
    process.stdout.close()


def forked(c: lockd.Client, held: lockd.Held, name: str, says: Connection) -> None:
    try:
        held.check()
        says.send("held")
    except lockd.LockLost as e:
        says.send(e.lost_reason)
    with c.lock(name + "/child", wait=PATIENCE) as mine:
        says.send(mine.fence)
    c.close()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_holds_nothing_and_begins_anew(client: lockd.Client, name: str) -> None:
    hears, says = multiprocessing.Pipe(False)
    with client.lock(name) as held:
        child = multiprocessing.get_context("fork").Process(target=forked, args=(client, held, name, says))
        child.start()
        assert hears.poll(PATIENCE) and hears.recv() == "FORKED"
        assert hears.poll(PATIENCE) and hears.recv() > 0
        child.join(PATIENCE)
        assert child.exitcode == 0
        held.check()
        with client.lock(name + "/child"):
            pass


FORKS = """
import os, sys
import lockd
with lockd.connect(sys.argv[1]) as c, c.lock(sys.argv[2]) as held:
    if not os.fork():
        for use in (held.check, c.lock("other").acquire, lockd.connect(sys.argv[1]).lock("other").acquire):
            try:
                use()
            except lockd.LockdError as e:
                print(type(e).__name__, flush=True)
        os._exit(0)
    os.wait()
    held.check()
"""


def test_a_forked_child_is_told_that_grpc_would_hang(address: str, name: str) -> None:
    env = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "0"}
    command = [sys.executable, "-c", FORKS, address, name]
    told = subprocess.run(command, env=env, stdout=subprocess.PIPE, timeout=PATIENCE, check=True).stdout
    assert told.decode().split() == ["LockLost", "ForkUnsupported", "ForkUnsupported"]


def test_closing_releases_all_and_leaves_nothing(address: str, client: lockd.Client, name: str) -> None:
    client.look(name)  # has its threads begin
    until("all is quiet", lambda: not [t for t in threading.enumerate() if "connector" in t.name])
    before, connected = set(threading.enumerate()), sockets()
    for _ in range(pick(1, 100)):
        closes(address, client, name)
        until("no thread is left", lambda: set(threading.enumerate()) <= before)
        until("no connection is left", lambda: sockets() <= connected)


def closes(address: str, client: lockd.Client, name: str) -> None:
    """Closes a client that holds a lock and waits for it."""
    c = lockd.connect(address, on_status=lambda _: None)
    held, refused = c.lock(name).acquire(), []

    def wait() -> None:
        try:
            c.lock(name).acquire()
        except lockd.ClientClosed as e:
            refused.append(e)

    waiting = threading.Thread(target=wait)
    waiting.start()
    until("it waits", lambda: client.look(name).waiters == 1)
    c.close()
    waiting.join()
    c.close()
    assert refused and not client.look(name).held
    for use in (held.check, c.lock(name).acquire, lambda: c.look(name)):
        with pytest.raises(lockd.ClientClosed):
            use()


def test_a_client_without_a_server(name: str) -> None:
    with lockd.connect("127.0.0.1:1") as c:
        with pytest.raises(lockd.Unavailable):
            c.lock(name, wait=0).acquire()
        with pytest.raises(lockd.TimedOut):
            c.lock(name, wait=0.2).acquire()
        with pytest.raises(lockd.Unavailable):
            c.look(name)
    with pytest.raises(lockd.Invalid):
        lockd.connect("not an address")


def test_an_interrupted_wait_leaves_nothing(address: str, client: lockd.Client, name: str) -> None:
    class Interrupt(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupt

    repeated = 1.0  # Python swallows what a handler raises while an object is finalized
    with lockd.connect(address, answer_timeout=PATIENCE) as c, client.lock(name, kind="fair"):
        old = signal.signal(signal.SIGALRM, interrupt)
        try:
            for i in range(pick(50, 1000)):
                with pytest.raises(Interrupt):
                    signal.setitimer(signal.ITIMER_REAL, 0.001 + i % 10 * 0.002, repeated)
                    c.lock(name, kind="fair").acquire()
                signal.setitimer(signal.ITIMER_REAL, 0)
                with pytest.raises(lockd.TimedOut):
                    c.lock(name, kind="fair", wait=0.001).acquire()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
        until("nothing waits", lambda: not client.look(name).queued and not client.look(name).waiters)
        assert list(c.holds()) == []


def test_a_server_for_tests_of_your_own(lockd_server: LockdServer, name: str) -> None:
    with lockd.connect(lockd_server.address) as c, c.lock(name) as held:
        assert held.is_held


class Turns:
    """A function for `on_status` that waits in its first call, and notes whether it is called meanwhile."""

    def __init__(self) -> None:
        self.ttls: list[float] = []
        self.go_on = threading.Event()

    def __call__(self, status: lockd.Status) -> None:
        self.ttls.append(status.ttl)
        assert self.go_on.wait(PATIENCE)


def test_a_ttl_of_its_own_is_a_session_of_its_own(address: str, other: lockd.Client, name: str) -> None:
    told = Turns()
    c = lockd.connect(address, session_ttl=60, on_status=told, answer_timeout=PATIENCE)
    quick = c.with_ttl(10)
    assert c.with_ttl(10) is quick and c.with_ttl(20) is not quick
    slow, soon = c.lock(name + "slow").acquire(), quick.lock(name + "soon").acquire()
    assert slow.remaining() > 30 and soon.remaining() <= 10
    with pytest.raises(lockd.LockHeld):
        quick.lock(name + "slow", wait=0).acquire()
    assert len(told.ttls) == 1  # the other session is told of when that has returned
    told.go_on.set()
    until("both sessions were told of", lambda: len(told.ttls) == 2)
    assert sorted(told.ttls) == [10, 60]
    quick.close()
    assert not soon.is_held and slow.is_held
    again = c.with_ttl(10).lock(name + "soon").acquire()
    c.close()
    assert not again.is_held
    with other.lock(name + "slow", wait=0), other.lock(name + "soon", wait=0):
        pass
    for closed in (lambda: c.with_ttl(10), quick.lock(name, wait=0).acquire):
        with pytest.raises(lockd.ClientClosed):
            closed()


def test_a_ttl_that_is_not_allowed_is_refused(client: lockd.Client, name: str) -> None:
    with pytest.raises(lockd.Invalid):
        client.with_ttl(0)
    with pytest.raises(lockd.Invalid):
        client.with_ttl(0.001).lock(name).acquire()
