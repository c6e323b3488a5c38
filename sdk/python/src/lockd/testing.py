"""For your own tests: a lockd with its leases in memory, on a free port, that ends with the tests.

With pytest the fixture `lockd_server` is there as soon as this package is installed. The binary is found in
LOCKD_TEST_BINARY, or else as `lockd` in PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

_PATIENCE = 120.0


class LockdServer:
    """A lockd that runs. `address` is for `lockd.connect`, `admin` for operators. Use it in `with`, or call `stop`."""

    def __init__(self, binary: str | None = None, env: Mapping[str, str] | None = None) -> None:
        """Starts it, with further variables such as LOCKD_SESSION_TTL=3s, and waits until it serves. Raises
        RuntimeError if it does not."""
        binary = binary or os.environ.get("LOCKD_TEST_BINARY") or shutil.which("lockd")
        if binary is None:
            raise RuntimeError("there is no lockd: put it into PATH, or its path into LOCKD_TEST_BINARY")
        self._log = tempfile.NamedTemporaryFile(prefix="lockd-", suffix=".log")  # noqa: SIM115 (stop closes it)
        free = {f"LOCKD_{of}LISTEN": "127.0.0.1:0" for of in ("", "OPS_", "ADMIN_")}
        clean = {k: v for k, v in os.environ.items() if not k.startswith("LOCKD_")}
        self.process = subprocess.Popen(
            [binary], env={**clean, **free, "LOCKD_LOG_FORMAT": "json", **(env or {})}, stderr=self._log
        )
        serves = self._serves()
        self.address = str(serves["listen"])
        self.admin = str(serves["admin_listen"])

    def _serves(self) -> dict[str, object]:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            for line in self.log().splitlines():
                if '"lockd serves"' in line:
                    return dict(json.loads(line))
            time.sleep(0.01)
        self.stop()
        raise RuntimeError("lockd does not become ready")

    def log(self) -> str:
        """What it has said so far."""
        return Path(self._log.name).read_text(errors="replace")

    def stop(self) -> None:
        """Kills it. Doing it twice is fine."""
        self.process.kill()
        self.process.wait()
        self._log.close()

    def __enter__(self) -> LockdServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
