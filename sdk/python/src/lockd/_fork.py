"""What becomes of clients in a child that was forked.

Threads do not live on in a child, so it holds nothing. gRPC works there only with GRPC_ENABLE_FORK_SUPPORT; without it
calls of a child hang whose parent has used it.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from grpc._cython import cygrpc

from lockd.errors import ForkUnsupported

# What gRPC found in its variable when it was loaded.
_supported = bool(getattr(cygrpc, "_GRPC_ENABLE_FORK_SUPPORT", False))


class _Forks(Protocol):
    def forked(self) -> None: ...


_engines: weakref.WeakSet[_Forks] = weakref.WeakSet()
_inherited: list[object] = []
_state = {"used": False, "stranded": False}


def register(engine: _Forks) -> None:
    """Has an engine told in a child."""
    _engines.add(engine)


def keep(inherited: object) -> None:
    """Keeps what a child has from its parent: to end it would touch the parent's connections."""
    _inherited.append(inherited)


def check() -> None:
    """Is called before gRPC is used. Raises ForkUnsupported where that would hang."""
    if _state["stranded"]:
        raise ForkUnsupported()
    _state["used"] = True


def _forked() -> None:
    _state["stranded"] = _state["stranded"] or (_state["used"] and not _supported)
    for engine in list(_engines):
        engine.forked()


os.register_at_fork(after_in_child=_forked)
