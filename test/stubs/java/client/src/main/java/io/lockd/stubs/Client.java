package io.lockd.stubs;

import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.stub.StreamObserver;
import io.lockd.v1.Acquire;
import io.lockd.v1.Goodbye;
import io.lockd.v1.Hold;
import io.lockd.v1.LockKind;
import io.lockd.v1.Open;
import io.lockd.v1.Release;
import io.lockd.v1.SessionRequest;
import io.lockd.v1.SessionResponse;
import io.lockd.v1.SessionServiceGrpc;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Takes the lock NAME from the lockd at ADDRESS, says so, and gives it back when told by a line: Client ADDRESS NAME. */
public final class Client implements StreamObserver<SessionResponse> {
  private final BlockingQueue<SessionResponse> answers = new LinkedBlockingQueue<>();
  private final CountDownLatch ended = new CountDownLatch(1);
  private StreamObserver<SessionRequest> requests;

  public static void main(String[] args) throws Exception {
    ManagedChannel channel = ManagedChannelBuilder.forTarget(args[0]).usePlaintext().build();
    try {
      Client client = new Client();
      client.requests = SessionServiceGrpc.newStub(channel).session(client);
      client.run(args[1]);
    } finally {
      channel.shutdownNow().awaitTermination(5, TimeUnit.SECONDS);
    }
  }

  private void run(String name) throws Exception {
    ask(SessionRequest.newBuilder().setRequestId(1).setOpen(Open.newBuilder().setClientName("stubs")));
    Hold hold =
        ask(SessionRequest.newBuilder()
                .setRequestId(2)
                .setAcquire(Acquire.newBuilder().setName(name).setKind(LockKind.LOCK_KIND_EXCLUSIVE)))
            .getGranted()
            .getHolds(0);
    System.out.println("locked " + hold.getFence());
    System.in.read();
    Release release =
        Release.newBuilder()
            .setName(name)
            .setKind(hold.getKind())
            .setHolder(hold.getHolder())
            .setFence(hold.getFence())
            .build();
    SessionResponse answer = ask(SessionRequest.newBuilder().setRequestId(3).setRelease(release));
    System.out.println(answer.getMessageCase().name().toLowerCase());
    requests.onNext(SessionRequest.newBuilder().setGoodbye(Goodbye.getDefaultInstance()).build());
    requests.onCompleted();
    if (!ended.await(10, TimeUnit.SECONDS)) {
      throw new IllegalStateException("the server does not end the stream");
    }
  }

  private SessionResponse ask(SessionRequest.Builder request) throws InterruptedException {
    requests.onNext(request.build());
    SessionResponse answer = answers.poll(30, TimeUnit.SECONDS);
    if (answer == null) {
      throw new IllegalStateException("no answer");
    }
    return answer;
  }

  @Override
  public void onNext(SessionResponse answer) {
    answers.add(answer);
  }

  @Override
  public void onError(Throwable cause) {
    cause.printStackTrace();
    ended.countDown();
  }

  @Override
  public void onCompleted() {
    ended.countDown();
  }
}
