"""Holds a lock while it works, and stops when it is lost: python hold.py orders/42

LOCKD_ADDR is the address of lockd, 127.0.0.1:7420 if it is not set."""

import contextlib
import os
import sys

import lockd


def main(name: str) -> None:
    address = os.environ.get("LOCKD_ADDR", "127.0.0.1:7420")
    with lockd.connect(address, name="example") as client, client.lock(name, wait=60) as held:
        print("held with fence", held.fence)
        while not held.lost.wait(timeout=1):  # a second of work; write with held.fence
            print("working, surely for", round(held.remaining()), "s more")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        try:
            main(sys.argv[1] if len(sys.argv) > 1 else "orders/42")
        except lockd.LockdError as e:  # such as LockLost
            sys.exit(f"hold.py: {e}")
