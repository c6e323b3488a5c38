"""A way to a server that can be slow, or cut: then nothing passes any more, and nobody is told."""

from __future__ import annotations

import contextlib
import socket
import threading
import time


class Proxy:
    """Use it in `with`. `far` is how long everything takes, each way, in seconds. `cut`: nothing is read any more."""

    def __init__(self, target: str, far: float = 0) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self.far = far
        self._passes = threading.Event()
        self._passes.set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """Has nothing pass from now on."""
        self._passes.clear()

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._passes.set()
        for s in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._copy, args=ends, name="proxy", daemon=True).start()

    def _copy(self, source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while some := source.recv(1 << 16):
                time.sleep(self.far)
                self._passes.wait()
                to.sendall(some)
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_RDWR)
