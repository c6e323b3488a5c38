package io.lockd.stubs;

import com.google.protobuf.Duration;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.stub.StreamObserver;
import io.lockd.v1.Acquire;
import io.lockd.v1.Goodbye;
import io.lockd.v1.Heartbeat;
import io.lockd.v1.Hold;
import io.lockd.v1.Open;
import io.lockd.v1.Release;
import io.lockd.v1.SessionRequest;
import io.lockd.v1.SessionResponse;
import io.lockd.v1.SessionServiceGrpc;
import io.lockd.v1.Validity;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** Holds the lock NAME until Enter is pressed: Client NAME. The address of lockd is in LOCKD_ADDR. */
public final class Client implements StreamObserver<SessionResponse> {
  private final ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor();
  private final BlockingQueue<SessionResponse> answers = new LinkedBlockingQueue<>();
  private final CountDownLatch ended = new CountDownLatch(1);
  private StreamObserver<SessionRequest> requests;

  // Guarded by this.
  private final List<Long> sent = new ArrayList<>(); // when Open was sent, and then each heartbeat
  private boolean held;
  private long deadline; // until when the lock can be trusted

  public static void main(String[] args) throws Exception {
    String address = System.getenv().getOrDefault("LOCKD_ADDR", "localhost:7420");
    ManagedChannel channel = ManagedChannelBuilder.forTarget(address).usePlaintext().build();
    Client client = new Client();
    client.sent.add(System.nanoTime());
    client.requests = SessionServiceGrpc.newStub(channel).session(client);
    client.run(args[0]);
    channel.shutdownNow().awaitTermination(5, TimeUnit.SECONDS);
  }

  private void run(String name) throws Exception {
    Open open = Open.newBuilder().setClientName("example").build();
    long interval = nanos(ask(SessionRequest.newBuilder().setRequestId(1).setOpen(open)).getOpened().getHeartbeatInterval());
    long first = ThreadLocalRandom.current().nextLong(interval);
    clock.scheduleAtFixedRate(this::beat, first, interval, TimeUnit.NANOSECONDS);

    Acquire acquire = Acquire.newBuilder().setName(name).build();
    Hold hold = ask(SessionRequest.newBuilder().setRequestId(2).setAcquire(acquire)).getGranted().getHolds(0);
    System.out.println("locked with fence " + hold.getFence());
    System.in.read(); // the work: until Enter is pressed
    Release release =
        Release.newBuilder()
            .setName(name)
            .setKind(hold.getKind())
            .setHolder(hold.getHolder())
            .setFence(hold.getFence())
            .build();
    ask(SessionRequest.newBuilder().setRequestId(3).setRelease(release));
    System.out.println("released");
    finish();
    ended.await(5, TimeUnit.SECONDS);
  }

  private synchronized void finish() {
    clock.shutdownNow();
    requests.onNext(SessionRequest.newBuilder().setGoodbye(Goodbye.getDefaultInstance()).build());
    requests.onCompleted(); // that was all: the server ends the session and the stream
  }

  private SessionResponse ask(SessionRequest.Builder request) throws InterruptedException {
    send(request);
    return answers.take();
  }

  private synchronized void send(SessionRequest.Builder request) {
    requests.onNext(request.build());
  }

  private synchronized void beat() {
    sent.add(System.nanoTime()); // before it is sent: too early is safe
    send(SessionRequest.newBuilder().setHeartbeat(Heartbeat.newBuilder().setSentId(sent.size() - 1)));
  }

  /** Moves the deadline, and looks again when it has come. */
  private void trust(long until) {
    deadline = until;
    clock.schedule(this::look, until - System.nanoTime(), TimeUnit.NANOSECONDS);
  }

  private synchronized void look() {
    if (held && System.nanoTime() - deadline >= 0) {
      stop("its time is over");
    }
  }

  private static void stop(Object why) {
    System.out.println("not locked: " + why);
    Runtime.getRuntime().halt(1); // ends the work as well, wherever it is
  }

  private static long nanos(Duration duration) {
    return TimeUnit.SECONDS.toNanos(duration.getSeconds()) + duration.getNanos();
  }

  @Override
  public synchronized void onNext(SessionResponse m) {
    look();
    switch (m.getMessageCase()) {
      case OPENED:
        answers.add(m);
        break;
      case GRANTED:
        Validity v = m.getGranted().getValidity();
        held = true;
        trust(sent.get((int) v.getAnchor()) + nanos(v.getAnchorAge()) + nanos(v.getRemaining()));
        answers.add(m);
        break;
      case HEARTBEAT_ACK:
        if (held && m.getHeartbeatAck().hasValidFor()) {
          long until = sent.get((int) m.getHeartbeatAck().getSentId()) + nanos(m.getHeartbeatAck().getValidFor());
          trust(until - deadline > 0 ? until : deadline);
        }
        break;
      case RELEASED:
        held = false;
        answers.add(m);
        break;
      case LOST:
      case CLOSING:
        stop(m);
        break;
      case RESULT:
        if (m.getResult().hasFailure()) {
          stop(m);
        }
        break;
      default: // other pushes, and Queued: the request waits
    }
  }

  @Override
  public void onError(Throwable cause) {
    stop(cause);
  }

  @Override
  public void onCompleted() {
    ended.countDown();
  }
}
