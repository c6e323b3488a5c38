"""What both faces say of a lock that is held. Nothing here asks the server, or waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lockd.errors import LockLost

from . import _requests
from ._clock import now
from ._hold import Grant, Unlocked

if TYPE_CHECKING:
    from ._engine import Engine


class Ending:
    """The life of a lock, or of several: it ends with the first one that ends. All of it may be used at any time, from
    any thread."""

    def __init__(self, engine: Engine, grants: Sequence[Grant]) -> None:
        self._engine = engine
        self._grants = tuple(grants)

    def check(self) -> None:
        """Raises LockLost if the lock was lost, NotHeld if it was unlocked, ClientClosed after close. It reads the
        clock: a process that was stopped past the deadline is told so by its first call. Nothing is asked."""
        if (cause := self._cause()) is not None:
            raise _requests.not_held(cause)

    @property
    def is_held(self) -> bool:
        """Whether check would say nothing."""
        return self._cause() is None

    @property
    def loss(self) -> LockLost | None:
        """Why it was lost; None while it is held, and after unlock."""
        return next((c for g in self._grants if isinstance(c := g.err(), LockLost)), None)

    def remaining(self) -> float:
        """Seconds for which it is surely held, as far as is known now; 0 if it has ended. It moves on while the lease
        is renewed."""
        if self._cause() is not None:
            return 0.0
        return max(min(g.hold.deadline for g in self._grants) - now(), 0.0)

    def _cause(self) -> Exception | None:
        causes = [c for g in self._grants if (c := g.err()) is not None]
        return next((c for c in causes if isinstance(c, LockLost)), causes[0] if causes else None)

    def _released(self) -> bool:
        return all(isinstance(g.err(), Unlocked) for g in self._grants)

    def _when_lost(self, tell: Callable[[LockLost], object]) -> None:
        """Has a function called for each grant that is lost, once, with the engine's lock held."""
        for g in self._grants:

            def ended(g: Grant = g) -> None:
                if isinstance(g.cause, LockLost):
                    tell(g.cause)

            g.listen(ended)


class OneHeld(Ending):
    """A lock that is held."""

    @property
    def name(self) -> str:
        """The name that is locked."""
        return self._grants[0].hold.key[0]

    @property
    def kind(self) -> str:
        """How it is locked."""
        return _requests.kind_name(self._grants[0].hold.key[1])

    @property
    def holder(self) -> str:
        """The holder inside the session, as the server knows it."""
        return self._grants[0].hold.key[2]

    @property
    def fence(self) -> int:
        """The token of this grant. Give it to the resource with each access: later grants of the name have greater
        ones, so a resource that refuses a smaller fence than the greatest it has seen is safe from late holders."""
        return self._grants[0].fence

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} fence={self.fence} {'held' if self.is_held else 'ended'}>"
