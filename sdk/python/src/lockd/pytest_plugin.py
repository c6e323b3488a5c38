"""The fixtures that pytest has as soon as this package is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .testing import LockdServer


@pytest.fixture(scope="session")
def lockd_server() -> Iterator[LockdServer]:
    """A lockd with its leases in memory, one for all tests of a run: use names of your own in each."""
    with LockdServer() as server:
        yield server
