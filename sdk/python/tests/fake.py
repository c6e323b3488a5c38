"""A lockd that is none: it answers as one would, or as a test tells it to, also wrongly."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration

from lockd.v1 import lock_pb2, session_service_pb2 as pb, session_service_pb2_grpc as rpc

LONG = Duration(seconds=60)
VALID = lock_pb2.Validity(remaining=LONG)
FRAME_BYTES = 1 << 16
Hook = Callable[["Stream", pb.SessionRequest], object]
"""Is shown each request, before it is answered. If it returns something true nothing else answers."""


class Stream:
    """One stream. `asked` has all requests, in their order; `batches` how many came in each batch."""

    def __init__(self, server: Fake) -> None:
        self.server = server
        self.asked: list[pb.SessionRequest] = []
        self.batches: list[int] = []
        self._out: queue.SimpleQueue[pb.SessionResponse | None] = queue.SimpleQueue()

    def send(self, request_id: int = 0, **message: Any) -> bool:
        """Sends a message, and says True: it is handled."""
        self._out.put(pb.SessionResponse(request_id=request_id, **message))
        return True

    def end(self) -> bool:
        """Ends the stream after what was sent, and says True."""
        self._out.put(None)
        return True

    def sent(self) -> Iterator[pb.SessionResponse]:
        """What is to be sent, until the end."""
        while (m := self._out.get()) is not None:
            yield m

    def of(self, kind: str) -> list[Any]:
        """The requests of a kind."""
        return [getattr(r, kind) for r in self.asked if r.WhichOneof("message") == kind]


class Fake(rpc.SessionServiceServicer):
    """The server. Use it in `with`."""

    def __init__(self, hook: Hook = lambda _, __: False) -> None:
        self.hook = hook
        self.streams: list[Stream] = []
        self._fences = itertools.count(1)
        self._server = grpc.server(ThreadPoolExecutor(16))
        rpc.add_SessionServiceServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> Fake:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        for st in self.streams:
            st.end()
        self._server.stop(0).wait()
        del self._server  # its threads end with it

    def of(self, kind: str) -> list[Any]:
        """The requests of a kind on all streams."""
        return [r for st in self.streams for r in st.of(kind)]

    def Session(self, requests: Iterator[pb.SessionRequest], _: grpc.ServicerContext) -> Iterator[pb.SessionResponse]:
        st = Stream(self)
        self.streams.append(st)

        def read() -> None:
            try:
                for r in requests:
                    if r.HasField("batch"):
                        st.batches.append(len(r.batch.requests))
                    for one in r.batch.requests if r.HasField("batch") else [r]:
                        st.asked.append(one)
                        if not self.hook(st, one):
                            self.answer(st, one)
            except grpc.RpcError:  # the client has gone
                pass
            finally:
                st.end()

        threading.Thread(target=read, daemon=True).start()
        yield from st.sent()

    def opened(self) -> pb.Opened:
        """What a lockd says first."""
        limits = pb.Limits(
            name_bytes=512, holder_bytes=128, annotation_bytes=4096, max_hold=LONG, frame_bytes=FRAME_BYTES
        )
        second = Duration(seconds=1)
        return pb.Opened(session_id="s", resume_token="t", session_ttl=LONG, heartbeat_interval=second, limits=limits)

    def granted(self, a: pb.Acquire) -> pb.Granted:
        """A grant of what was asked for."""
        items = a.items or [a]
        holds = [
            lock_pb2.Hold(name=i.name, kind=i.kind, holder=a.holder or "#1", fence=next(self._fences)) for i in items
        ]
        return pb.Granted(holds=holds, validity=VALID, auto=not a.HasField("lease"))

    def answer(self, st: Stream, r: pb.SessionRequest) -> None:
        """Answers as a lockd would for which nobody ever waits."""
        id = r.request_id
        match r.WhichOneof("message"):
            case "open":
                st.send(id, opened=self.opened())
            case "heartbeat":
                st.send(heartbeat_ack=pb.HeartbeatAck(sent_id=r.heartbeat.sent_id, valid_for=LONG))
            case "acquire":
                st.send(id, granted=self.granted(r.acquire))
            case "release":
                st.send(id, released=pb.Released())
            case "extend":
                st.send(id, extended=pb.Extended(validity=VALID))
            case "look":
                st.send(id, looked=pb.Looked(lock=lock_pb2.LockState(name=r.look.name)))
            case "list_holds":
                st.send(id, hold_list=pb.HoldList())
            case "set_limit":
                st.send(id, limit_set=pb.LimitSet(previous=1))
            case "watch" | "unwatch" | "cancel":
                st.send(id, result=pb.Result())
            case "goodbye":
                st.end()
