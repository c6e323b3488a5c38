"""Locks in asyncio: twenty tasks share three licences.

LOCKD_ADDR is the address of lockd, 127.0.0.1:7420 if it is not set."""

import asyncio
import contextlib
import os

import lockd.aio


async def work(client: lockd.aio.Client, number: int) -> None:
    async with client.lock("licences", limit=3) as held:
        print(number, "has a licence, fence", held.fence)
        await asyncio.sleep(0.2)


async def main() -> None:
    async with lockd.aio.connect(os.environ.get("LOCKD_ADDR", "127.0.0.1:7420"), name="example") as client:
        await asyncio.gather(*(work(client, number) for number in range(20)))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
