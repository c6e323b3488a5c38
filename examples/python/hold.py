"""Holds a lock while it works, and stops when it is lost: python hold.py orders/42"""

import sys

import lockd

with lockd.connect("127.0.0.1:7420", name="example") as client, client.lock(sys.argv[1], wait=60) as held:
    print("held with fence", held.fence)
    while not held.lost.wait(timeout=1):  # a second of work; write with held.fence
        print("working, surely for", round(held.remaining()), "s more")
