"""Names that are watched, and who watches them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lockd.v1 import session_service_pb2 as pb

from ._call import Call, SessionOver

if TYPE_CHECKING:
    from ._engine import Engine
    from ._session import Session

_KEPT_ENDS = 256  # of a name that are known again when the server repeats them
_MOST_UNREAD = 64  # events of a watcher; then the oldest is told with a later one


@dataclass(frozen=True)
class Unlocked:
    """A hold of a name ended. The name may be locked again already."""

    name: str
    cause: str = "UNKNOWN"
    """RELEASED, HANDED_OVER, EXPIRED, FORCED, DATA_LOSS or UNKNOWN."""
    fence: int = 0
    """That of the hold, 0 if it is not known."""
    merged: int = 0
    """How many earlier ends this event tells as well, because they were not told or read in time."""
    gap: bool = False
    """The connection was interrupted: the name may have been unlocked before, or not at all."""


class Feed:
    """The events of one watcher. `tell` is called with the engine's lock held when there is something new."""

    def __init__(self, name: str, tell: Callable[[], None]) -> None:
        self.name = name
        self.tell = tell
        self.events: deque[Unlocked] = deque()
        self.over = False
        self.error: Exception | None = None

    def put(self, e: Unlocked) -> None:
        """Adds an event, in place of the oldest one if too many were not read."""
        if len(self.events) >= _MOST_UNREAD:
            old = self.events.popleft()
            e = replace(e, gap=e.gap or old.gap, merged=e.merged + old.merged + 1)
        self.events.append(e)
        if len(self.events) == 1:
            self.tell()

    def end(self, error: Exception | None) -> None:
        """Says that nothing follows."""
        self.over, self.error = True, error
        self.tell()


class _Watched:
    def __init__(self) -> None:
        self.feeds: list[Feed] = []
        self.told: deque[str | int] = deque(maxlen=_KEPT_ENDS)

    def repeats(self, u: pb.Unlocked) -> bool:
        """Whether an end was told before. It remembers it."""
        of: str | int = u.hold or int(u.fence)
        if not of:
            return False
        if of in self.told:
            return u.merged == 0  # else it tells others as well
        self.told.append(of)
        return False


class Watches:
    """All that a client watches. The engine's lock guards it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._names: dict[str, _Watched] = {}

    def add(self, feed: Feed) -> None:
        """Notes a watcher."""
        self._names.setdefault(feed.name, _Watched()).feeds.append(feed)

    def remove(self, feed: Feed) -> None:
        """Ends a watch, and tells the server if it was the last of its name."""
        w = self._names.get(feed.name)
        if w is None or feed not in w.feeds:
            return
        feed.end(None)
        w.feeds.remove(feed)
        if not w.feeds:
            del self._names[feed.name]
            if self._engine.session is not None:
                self._engine.session.submit(Call("unwatch", pb.Unwatch(name=feed.name)))

    def unlocked(self, u: pb.Unlocked) -> None:
        """Tells the watchers of a name, unless it is a repeat."""
        w = self._names.get(u.name)
        if w is None or w.repeats(u):
            return
        known = u.cause != pb.Unlocked.CAUSE_UNSPECIFIED and u.cause in pb.Unlocked.Cause.values()
        cause = pb.Unlocked.Cause.Name(u.cause).removeprefix("CAUSE_") if known else "UNKNOWN"
        for feed in w.feeds:
            feed.put(Unlocked(u.name, cause, int(u.fence), int(u.merged)))

    def end(self, name: str, error: Exception | None) -> None:
        """Ends the watching of a name that the server refuses."""
        w = self._names.pop(name, None)
        for feed in w.feeds if w else ():
            feed.end(error)

    def end_all(self, error: Exception | None = None) -> None:
        """Ends all, because the client is closed, or because the server lets nobody in."""
        for name in list(self._names):
            self.end(name, error)

    def again(self, s: Session) -> None:
        """Asks a session that begins, or goes on, for all that was watched before."""
        for name in self._names:
            call = Call("watch", pb.Watch(name=name), home=s)

            def told(call: Call, name: str = name) -> None:
                if call.error is None:
                    w = self._names.get(name)
                    for feed in w.feeds if w else ():
                        feed.put(Unlocked(name, gap=True))
                elif not isinstance(call.error, SessionOver):
                    self.end(name, call.error)

            call.tell = told
            s.submit(call)
