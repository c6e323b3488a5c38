"""A request of a caller, from when it is made until it is answered, over as many streams and sessions as that takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lockd.errors import Invalid, LockdError, LockHeld, QuotaReached, Unsupported
from lockd.v1 import lock_pb2, session_service_pb2 as pb

from . import _check, _clock
from ._clock import NEVER

if TYPE_CHECKING:
    from ._hold import Grant
    from ._session import Session

News = int | LockHeld
"""Of a call that waits: its position in the queue, or who is in the way."""
_MOST_NEWS = 16
"""Of those that were not taken the oldest are passed over."""
_MOST_FORMER = 16  # former ids of a request that a server takes
_MOST_OF_A_LETTER = 4  # bytes
_MOST_OF_A_MESSAGE = 256  # bytes besides the body: ids, the former ones among them, and times

Check = tuple[str, str, str, str]
"""A text: the reason if it is refused, what it is, the text, and which of the limits is for it."""


class Call:
    """One request. The engine's lock guards all that changes."""

    # Set by who makes it.
    by = NEVER
    """When its answer must have come."""
    until = NEVER
    """When there must be a session to ask in; then the error is that of `late`."""
    patient = False
    """It waits on when an attempt to connect fails."""
    changes = False
    """An answer that does not come leaves the outcome unknown."""
    once = False
    """It is not asked again if it may have been done."""
    grant: Grant | None = None
    """What an extend changes, or a release ends."""
    home: Session | None = None
    """The only session that it can be asked in."""
    tell: Callable[[Call], None] | None = None
    """Wakes who waits, with the lock held: it is settled, has news, or other bounds. None: nobody waits."""
    waiter: Any = None
    alarm_at = NEVER
    """Of who waits, where one wakes many."""
    each: Callable[[], None] | None = None
    """Is called when it is first given to a session, with the lock held."""
    wants_positions = False
    wants_holders = False
    checks: Sequence[Check] = ()
    """Its texts."""

    # Of an acquire.
    special = False
    """It needs what not every server does."""
    begun = 0.0
    bounded = False
    end = NEVER
    tries = False

    # Changed by the engine.
    id = 0
    sent = False  # on the stream at hand
    seen = False  # it was sent on an earlier stream
    again = False  # or in an earlier session
    waits = False  # the stream at hand told that it does
    position = 0  # and after so many others
    abandoned = False
    placeless = False  # it waits for a session
    settled = False
    value: Any = None
    error: Exception | None = None
    news: deque[News] | None = None  # None while there was none
    former: Sequence[int] = ()  # ids under which an acquire may have something

    def __init__(self, kind: str, body: Any, **terms: Any) -> None:
        self.kind, self.body = kind, body  # the body is shared, and never changed
        self.__dict__.update(terms)

    @property
    def tracked(self) -> bool:
        """Whether the answer matters to anybody."""
        return self.tell is not None or self.abandoned or self.kind == "release"

    @property
    def frees_all(self) -> bool:
        """Whether it is a release, and not of some permits only."""
        return self.kind == "release" and not self.body.keep

    def refused(self, limits: pb.Limits) -> LockdError | None:
        """Why a server with such limits would refuse it, or could not even read it."""
        try:
            for reason, what, text, limit in self.checks:
                if len(text) * _MOST_OF_A_LETTER > (most := getattr(limits, limit)):
                    _check.text(reason, what, text, most)
        except Invalid as e:
            return e
        if not self.special:
            return None
        if 0 < limits.names_per_acquire < len(self.body.items):
            return QuotaReached("too many locks at once", reason="QUOTA_NAMES")
        if self.body.HasField("max_hold") and not limits.HasField("max_hold"):
            return Unsupported("the server does not know max_hold, and would ignore it")
        return None

    @property
    def size(self) -> int:
        """No less than the bytes of the message."""
        return int(self.body.ByteSize()) + _MOST_OF_A_MESSAGE

    def message(self, make: Callable[..., pb.SessionRequest], now: float) -> pb.SessionRequest:
        """The message that is sent now, which `make` makes of its fields. An earlier one may still be under way, so
        each sending has its own."""
        message = make(request_id=self.id, **{self.kind: self.body})
        if self.kind != "acquire":
            return message
        body = message.acquire
        if self.tries or self.abandoned:  # for nobody it is asked only to have undone what it took
            _clock.put(body.wait, 0)
        elif self.bounded:
            _clock.put(body.wait, max(self.end - now, 1e-9))
        if self.former:
            body.instead_of.extend(self.former)
        if self.again:
            _clock.put(body.waited, max(now - self.begun, 0))
        return message

    def begin_again(self) -> None:
        """Has an acquire asked again on another stream, under a new id. Who was told that it waits has nothing under
        the ids before. Of too many the oldest are left out: a lease that was taken under one of them ends by itself."""
        if self.sent:
            self.former = [self.id] if self.waits else [*self.former, self.id][-_MOST_FORMER:]
        self.again, self.seen, self.sent, self.waits = True, self.seen or self.sent, False, False

    def forget(self) -> None:
        """Makes it new for another session."""
        self.again, self.former = True, []
        self.sent = self.seen = self.waits = False

    def settle(self, value: Any = None, error: Exception | None = None) -> None:
        """Gives it its only answer."""
        if self.settled:
            return
        self.settled, self.value, self.error = True, value, error
        if self.tell is not None and not self.abandoned:
            self.tell(self)

    def notice(self, news: News) -> None:
        """Notes what who waits is to be told."""
        if self.news is None:
            self.news = deque(maxlen=_MOST_NEWS)
        self.news.append(news)

    def result(self) -> Any:
        """The answer of a call that is settled."""
        if self.error is not None:
            raise self.error
        return self.value


class SessionOver(LockdError):
    """The session ended before the answer came."""

    unsent = False


class NoAnswer(LockdError):
    """The server did not answer in time."""


class Broken(LockdError):
    """The stream ended before the answer came, and to ask again could undo what others did since."""


KINDS = {
    "exclusive": lock_pb2.LOCK_KIND_EXCLUSIVE,
    "fair": lock_pb2.LOCK_KIND_FAIR,
    "read": lock_pb2.LOCK_KIND_READ,
    "write": lock_pb2.LOCK_KIND_WRITE,
    "semaphore": lock_pb2.LOCK_KIND_SEMAPHORE,
}
