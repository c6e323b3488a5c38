"""Takes the lock NAME from the lockd at ADDRESS, says so, and gives it back when told by a line: client.py ADDRESS NAME."""

import queue
import sys

import grpc

from lockd.v1 import lock_pb2, session_service_pb2, session_service_pb2_grpc


def main(address: str, name: str) -> None:
    requests: queue.Queue = queue.Queue()
    with grpc.insecure_channel(address) as channel:
        answers = session_service_pb2_grpc.SessionServiceStub(channel).Session(iter(requests.get, None))

        def ask(request_id: int, **message):
            requests.put(session_service_pb2.SessionRequest(request_id=request_id, **message))
            return next(answers)

        ask(1, open=session_service_pb2.Open(client_name="stubs"))
        exclusive = lock_pb2.LOCK_KIND_EXCLUSIVE
        granted = ask(2, acquire=session_service_pb2.Acquire(name=name, kind=exclusive)).granted
        hold = granted.holds[0]
        print("locked", hold.fence, flush=True)
        sys.stdin.readline()
        release = session_service_pb2.Release(name=name, kind=exclusive, holder=hold.holder, fence=hold.fence)
        answer = ask(3, release=release)
        print(answer.WhichOneof("message"), flush=True)
        requests.put(session_service_pb2.SessionRequest(goodbye=session_service_pb2.Goodbye()))
        requests.put(None)


main(*sys.argv[1:])
