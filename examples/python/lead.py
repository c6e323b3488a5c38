"""Leads while it can, and tells who does: python lead.py NAME"""

import sys
import threading

import lockd


def watch(client: lockd.Client) -> None:
    for leader in client.election("reports").observe():
        print("nobody leads" if not leader.name else f"{leader.name} leads")


with lockd.connect("127.0.0.1:7420", name="example") as client:
    threading.Thread(target=watch, args=[client], daemon=True).start()
    while True:
        try:
            with client.election("reports").campaign(sys.argv[1]) as term:
                print("I lead, in term", term.fence)
                term.lost.wait()
        except lockd.LockLost as e:
            print("no longer:", e)
