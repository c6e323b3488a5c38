"""Time as a client counts it: seconds on the monotonic clock, which every deadline of a lock is on."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from google.protobuf.duration_pb2 import Duration

from lockd.v1 import lock_pb2

now = time.monotonic
NEVER = float("inf")
_KEPT = 64  # heartbeats


def seconds(d: Duration) -> float:
    """What a message says, in seconds."""
    return d.seconds + d.nanos / 1e9


def put(d: Duration, value: float) -> None:
    """Sets a field to some seconds, also to 0, which is not the same as absent."""
    d.seconds, d.nanos = divmod(round(value * 1e9), 10**9)
    d.SetInParent()


class Until(NamedTuple):
    """Until when something is valid, as a server told it."""

    deadline: float
    most: bool = False  # until the end of its max_hold


class Beats:
    """When the last heartbeats of a stream were sent: what the server tells of validity counts from there."""

    def __init__(self) -> None:
        self.opened = now()  # when Open was sent
        self._last = 0
        self._sent = [0.0] * _KEPT

    def next(self, at: float) -> int:
        """Notes a heartbeat that is about to be sent, and returns its sent_id."""
        self._last += 1
        self._sent[self._last % _KEPT] = at
        return self._last

    def at(self, sent_id: int) -> float:
        """When it was sent, or an earlier time if that is not known: a deadline that is too early is safe."""
        if not 0 < sent_id <= self._last or self._last - sent_id >= _KEPT:
            return self.opened
        return self._sent[sent_id % _KEPT]

    def until(self, v: lock_pb2.Validity) -> Until:
        """When a validity ends."""
        return Until(self.deadline(v), v.until_max_hold)

    def deadline(self, v: lock_pb2.Validity, remaining: Duration | None = None) -> float:
        """When a validity ends, or something else of which so much remains: time at which the anchor was sent +
        anchor_age + remaining."""
        age, left = v.anchor_age, v.remaining if remaining is None else remaining
        return self.at(v.anchor) + age.seconds + left.seconds + (age.nanos + left.nanos) / 1e9


class Timers:
    """Calls functions at their times, in one thread, each with the lock held. They must not block.

    A signal may interrupt the main thread at any moment, also with the lock held, and so what must not be left half
    done is done by this thread. What an interrupted caller left is noticed at the next call."""

    def __init__(self, lock: threading.RLock) -> None:
        self._wake = threading.Condition(lock)
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._thread: threading.Thread | None = None
        self._ended = False

    def at_locked(self, when: float, call: Callable[[], None]) -> None:
        """Has a function called. After end it is not."""
        if self._ended:
            return
        heapq.heappush(self._heap, (when, next(self._count), call))
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="lockd-timers", daemon=True)
            self._thread.start()
        elif self._heap[0][2] is call:
            self._wake.notify()

    def end_locked(self) -> None:
        """Ends the thread."""
        self._ended = True
        self._wake.notify()

    def join(self) -> None:
        """Waits for the thread, after end_locked."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        with self._wake:
            while not self._ended and self._thread is threading.current_thread():
                if not self._heap:
                    self._wake.wait()
                elif (left := self._heap[0][0] - now()) > 0:
                    self._wake.wait(min(left, threading.TIMEOUT_MAX))
                else:
                    heapq.heappop(self._heap)[2]()
