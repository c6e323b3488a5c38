"""lockd: locks with leases and fences, from a lock broker in front of Redis.

    with lockd.connect("127.0.0.1:7420") as client:
        with client.lock("orders/42", wait=5) as held:
            held.on_lost(stop)
            write(fence=held.fence)

A client is one session: make one for a process and keep it. Threads of its own keep the session, renew what is held and
go on at another replica when one stops. A lock knows by itself until when it is surely held; at that moment it is lost
here, with or without a connection. Times are in seconds. `lockd.aio` is the same for asyncio.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if "grpc" not in sys.modules:  # else whoever loaded it has decided
    # gRPC works in a forked child only if it was told so before it is loaded.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "1")

# The stubs are lockd.v1 of another distribution, which may be installed elsewhere.
__path__ = pkgutil.extend_path(__path__, __name__)

from ._blocking import Client, Held, HeldAll, Lock, Lost, Watch
from ._make import ClientOptions, engine_of
from ._requests import HeldInfo, Info, Item, LockOptions, new_actor
from ._settings import TLS, Status, tls_from_env, token_file_from_env
from ._watches import Unlocked
from .errors import (
    AutoLease,
    Cancelled,
    ClientClosed,
    DeadlockFound,
    Denied,
    Forbidden,
    ForkUnsupported,
    Invalid,
    KindMismatch,
    LimitMismatch,
    LockdError,
    LockHeld,
    LockLost,
    NotHeld,
    OutcomeUnknown,
    QuotaReached,
    StaleFence,
    StoreFull,
    TimedOut,
    TimedOutUnknown,
    Unauthenticated,
    Unavailable,
    Unsupported,
    Upgrade,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "TLS",
    "AutoLease",
    "Cancelled",
    "Client",
    "ClientClosed",
    "ClientOptions",
    "DeadlockFound",
    "Denied",
    "Forbidden",
    "ForkUnsupported",
    "Held",
    "HeldAll",
    "HeldInfo",
    "Info",
    "Invalid",
    "Item",
    "KindMismatch",
    "LimitMismatch",
    "Lock",
    "LockHeld",
    "LockLost",
    "LockOptions",
    "LockdError",
    "Lost",
    "NotHeld",
    "OutcomeUnknown",
    "QuotaReached",
    "StaleFence",
    "Status",
    "StoreFull",
    "TimedOut",
    "TimedOutUnknown",
    "Unauthenticated",
    "Unavailable",
    "Unlocked",
    "Unsupported",
    "Upgrade",
    "Watch",
    "connect",
    "new_actor",
    "tls_from_env",
    "token_file_from_env",
]


def connect(addresses: str | Sequence[str], **options: Unpack[ClientOptions]) -> Client:
    """Makes a client for a server such as "lockd.example.com:7420", or for several replicas, separated by commas or in
    a list: they are tried in their order, and any of the others first when the stream to one breaks or the server asks
    to leave. The port is 7420 if there is none. It does not connect yet: the first use does. Raises Invalid for an
    address or an option that cannot be."""
    return Client(engine_of(addresses, options))
