"""Leads while it can, and tells who does: python lead.py ID

LOCKD_ADDR is the address of lockd, 127.0.0.1:7420 if it is not set."""

import contextlib
import os
import sys
import threading

import lockd


def watch(client: lockd.Client) -> None:
    for leader in client.election("reports").observe():
        print(leader.name or "nobody", "leads")


def main(id: str) -> None:
    with lockd.connect(os.environ.get("LOCKD_ADDR", "127.0.0.1:7420"), name="example") as client:
        threading.Thread(target=watch, args=[client], daemon=True).start()
        while True:
            try:
                with client.election("reports").campaign(id) as term:
                    print("I lead, in term", term.fence)
                    term.lost.wait()
            except lockd.LockLost as e:
                print("no longer:", e)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1] if len(sys.argv) > 1 else f"pid {os.getpid()}")
