package io.lockd.bench;

import io.lockd.client.shaded.grpc.ManagedChannel;
import io.lockd.client.shaded.grpc.netty.NettyChannelBuilder;
import io.lockd.client.shaded.grpc.stub.StreamObserver;
import io.lockd.client.shaded.v1.Acquire;
import io.lockd.client.shaded.v1.Heartbeat;
import io.lockd.client.shaded.v1.Hold;
import io.lockd.client.shaded.v1.Open;
import io.lockd.client.shaded.v1.Release;
import io.lockd.client.shaded.v1.SessionRequest;
import io.lockd.client.shaded.v1.SessionResponse;
import io.lockd.client.shaded.v1.SessionServiceGrpc;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** A bare loop on the stubs: what a request is sent by, and its answer told to who waits, and no more. */
final class Stubs implements Pairs.Peer, StreamObserver<SessionResponse> {
    private static final int MOST = 1024;

    private final ManagedChannel channel;
    private final ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor();
    private final StreamObserver<SessionRequest> requests;
    private long lastId;
    private long beats;
    /** Of each caller: an id of a request, modulo MOST, is its number. */
    private final BlockingQueue<SessionResponse>[] answers;

    @SuppressWarnings("unchecked")
    Stubs(String address) throws Exception {
        channel = NettyChannelBuilder.forTarget(address).usePlaintext().directExecutor().build();
        answers = new BlockingQueue[MOST];
        for (int i = 0; i < MOST; i++) {
            answers[i] = new ArrayBlockingQueue<>(1);
        }
        requests = SessionServiceGrpc.newStub(channel).session(this);
        ask(MOST - 1, SessionRequest.newBuilder().setOpen(Open.newBuilder().setClientName("bare loop")));
        clock.scheduleAtFixedRate(this::beat, 5, 5, TimeUnit.SECONDS);
    }

    private void beat() {
        synchronized (requests) {
            beats++;
            requests.onNext(SessionRequest.newBuilder().setHeartbeat(Heartbeat.newBuilder().setSentId(beats)).build());
        }
    }

    private SessionResponse ask(int caller, SessionRequest.Builder request) throws InterruptedException {
        synchronized (requests) { // ids are to rise
            lastId += MOST;
            requests.onNext(request.setRequestId(lastId + caller).build());
        }
        return answers[caller].take();
    }

    @Override
    public Pairs.Pair caller(int number, String name) {
        return () -> {
            Acquire acquire = Acquire.newBuilder().setName(name).build();
            Hold h = ask(number, SessionRequest.newBuilder().setAcquire(acquire)).getGranted().getHolds(0);
            Release release = Release.newBuilder().setName(name).setKind(h.getKind()).setHolder(h.getHolder())
                .setFence(h.getFence()).build();
            ask(number, SessionRequest.newBuilder().setRelease(release));
        };
    }

    @Override
    public void onNext(SessionResponse m) {
        if (m.getRequestId() != 0) {
            answers[(int) (m.getRequestId() % MOST)].add(m);
        }
    }

    @Override
    public void onError(Throwable cause) {
        cause.printStackTrace();
        Runtime.getRuntime().halt(1);
    }

    @Override
    public void onCompleted() {
        // close ends the connection
    }

    @Override
    public void close() {
        clock.shutdownNow();
        channel.shutdownNow();
    }
}
