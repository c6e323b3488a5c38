"""One leads at a time, and everybody knows who."""

from __future__ import annotations

import asyncio
import queue
import threading

from conftest import PATIENCE, Servers

import lockd
import lockd.aio
from lockd.election import Leader


def test_a_leader_leads_until_it_resigns(client: lockd.Client, other: lockd.Client, shared: Servers, name: str) -> None:
    seen: queue.Queue[Leader] = queue.Queue()

    def observe() -> None:
        for leader in other.election(name).observe():
            seen.put(leader)

    thread = threading.Thread(target=observe)
    thread.start()
    assert seen.get(timeout=PATIENCE) == Leader("")
    with client.election(name).campaign("ann", annotation="rack 1") as term:
        assert seen.get(timeout=PATIENCE) == Leader("ann", "rack 1", term.fence)
        term.resign()
        next_term = other.election(name).campaign("bob").acquire()
        assert next_term.fence > term.fence
        while (leader := seen.get(timeout=PATIENCE)).name != "bob":
            assert leader == Leader("")
        shared.force(name)
        assert next_term.lost.wait(PATIENCE)
    other.close()
    thread.join()


def test_a_leader_without_an_id_leads(client: lockd.Client, name: str) -> None:
    with client.election(name).campaign() as term:
        leader = client.election(name).leader()
        assert leader.fence == term.fence and term.holder in leader.name


def test_a_leader_of_asyncio(address: str, name: str) -> None:
    async def main() -> None:
        client = lockd.aio.connect(address, answer_timeout=PATIENCE)
        async with client, client.election(name).campaign("ann") as term:
            async for leader in client.election(name).observe():
                assert leader == Leader("ann", "", term.fence)
                break
            await term.resign()

    asyncio.run(main())
