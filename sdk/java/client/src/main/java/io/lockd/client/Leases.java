package io.lockd.client;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.lockd.client.internal.Engine;
import io.lockd.client.internal.Failure;
import io.lockd.v1.AcquireRequest;
import io.lockd.v1.AcquireResponse;
import io.lockd.v1.ExtendRequest;
import io.lockd.v1.LockKind;
import io.lockd.v1.LockServiceGrpc;
import io.lockd.v1.LockServiceGrpc.LockServiceBlockingStub;
import io.lockd.v1.ReleaseRequest;
import java.time.Duration;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * Fixed leases without a session: they are never renewed, and outlive the program. They are for schedulers and short
 * programs; others use {@link LockdClient#lock}.
 */
public final class Leases {
    /** How often a call is made whose answer did not come. */
    private static final int TRIES = 3;
    /** How long a server is waited for that is to release what nobody wants. */
    private static final long GIVE_BACK_SECONDS = 60;

    private final Engine engine;

    Leases(Engine engine) {
        this.engine = engine;
    }

    /** A lease. Its id is its key: a program that knows it may extend and release it. */
    public final class Lease {
        private final String name;
        private final String id;
        private final long fence;

        private Lease(String name, String id, long fence) {
            this.name = name;
            this.id = id;
            this.fence = fence;
        }

        /** The lock. */
        public String name() {
            return name;
        }

        /** The fence, see {@link Held#fence}. */
        public long fence() {
            return fence;
        }

        /**
         * Sets how long it lasts from now. It is made shorter only if that is allowed. Doing it twice is fine.
         *
         * @throws LockNotHeldException if it had ended
         * @throws OutcomeUnknownException if it may have been done
         */
        public void extend(Duration lasts, boolean mayShorten) {
            ExtendRequest r = ExtendRequest.newBuilder().setName(name).setKind(LockKind.LOCK_KIND_EXCLUSIVE)
                .setLeaseId(id)
                .setLease(proto(lasts)).setMayShorten(mayShorten).build();
            call("extend", name, stub -> stub.extend(r));
        }

        /**
         * Gives it back.
         *
         * @throws LockNotHeldException if it had ended
         * @throws OutcomeUnknownException if it may have been done; it ends by itself
         */
        public void release() {
            ReleaseRequest r = ReleaseRequest.newBuilder().setName(name).setKind(LockKind.LOCK_KIND_EXCLUSIVE)
                .setLeaseId(id)
                .build();
            call("release", name, stub -> stub.release(r));
        }
    }

    /**
     * Takes a lock for a fixed time if it is free. Empty: it is not. A call whose answer does not come is repeated, and
     * gets the same lease.
     *
     * @throws OutcomeUnknownException if no answer came. What may have been taken is released, or ends by itself
     * @throws LockdUnavailableException if the server cannot be reached, or cannot any more; likewise
     */
    public Optional<Lease> tryAcquire(String name, Duration lasts, String annotation) {
        String id = (UUID.randomUUID().toString() + UUID.randomUUID()).replace("-", "");
        AcquireRequest r = AcquireRequest.newBuilder().setName(name).setKind(LockKind.LOCK_KIND_EXCLUSIVE)
            .setLease(proto(lasts)).setLeaseId(id).setAnnotation(annotation).setClientName(engine.clientName()).build();
        try {
            AcquireResponse a = call("take", name, stub -> stub.acquire(r));
            return a.hasGranted() ? Optional.of(new Lease(name, id, a.getGranted().getFence())) : Optional.empty();
        } catch (LockdException e) {
            boolean interrupted = e.reason().isEmpty();
            if (interrupted || e instanceof OutcomeUnknownException || e instanceof LockdUnavailableException) {
                giveBack(name, id);
            }
            throw e;
        }
    }

    /** Releases what may have been taken once the server can be reached, if that is soon, and waits for nothing. */
    private void giveBack(String name, String id) {
        ReleaseRequest r = ReleaseRequest.newBuilder().setName(name).setKind(LockKind.LOCK_KIND_EXCLUSIVE)
            .setLeaseId(id).build();
        LockServiceGrpc.newFutureStub(engine.channels().unary(engine.channels().target(0)))
            .withCallCredentials(engine.channels().options().getCredentials())
            .withWaitForReady().withDeadlineAfter(GIVE_BACK_SECONDS, TimeUnit.SECONDS).release(r);
    }

    private static com.google.protobuf.Duration proto(Duration d) {
        return com.google.protobuf.Duration.newBuilder().setSeconds(d.getSeconds()).setNanos(d.getNano()).build();
    }

    /** Makes a call, which is repeated at another address if its outcome is not known. */
    private <T> T call(String verb, String name, Function<LockServiceBlockingStub, T> method) {
        for (int tries = 1;; tries++) {
            try {
                return method.apply(LockServiceGrpc.newBlockingStub(engine.channels().unary(engine.channels()
                    .target(tries - 1)))
                    .withCallCredentials(engine.channels().options().getCredentials())
                    .withDeadlineAfter(engine.answerNanos() / TRIES, TimeUnit.NANOSECONDS));
            } catch (StatusRuntimeException e) {
                Status.Code code = e.getStatus().getCode();
                boolean unknown = code == Status.Code.UNAVAILABLE || code == Status.Code.DEADLINE_EXCEEDED;
                if (unknown && tries < TRIES) {
                    continue;
                }
                Failure f = Failure.of(e.getStatus(), e.getTrailers());
                throw Errors.of(verb + " \"" + name + '"', code == Status.Code.DEADLINE_EXCEEDED
                    ? Failure.of(io.lockd.client.internal.Fault.OUTCOME_UNKNOWN, f.toString()) : f);
            }
        }
    }
}
