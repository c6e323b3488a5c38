package io.lockd.client;

import io.grpc.StatusRuntimeException;
import io.lockd.client.internal.Engine;
import io.lockd.client.internal.Failure;
import io.lockd.client.internal.Fault;
import io.lockd.client.internal.Sent;
import io.lockd.v1.AcquireRequest;
import io.lockd.v1.AcquireResponse;
import io.lockd.v1.ExtendRequest;
import io.lockd.v1.LockKind;
import io.lockd.v1.LockServiceGrpc;
import io.lockd.v1.LockServiceGrpc.LockServiceBlockingStub;
import io.lockd.v1.ReleaseRequest;
import io.lockd.v1.ReleaseResponse;
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
    /** How often a call is made whose answer did not come, at least; and at each address. */
    private static final int TRIES = 3;
    /** How long a server is waited for that is to release what nobody wants. */
    private static final long UNDO_SECONDS = 60;

    private final Engine engine;
    /** The address that answered last. */
    private volatile int at;

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
            call(stub -> stub.extend(r)).orThrow("extend", name);
        }

        /**
         * Releases it. If an answer was lost, and it is then found to have ended, it was released by that call.
         *
         * @throws LockNotHeldException if it had ended
         * @throws OutcomeUnknownException if it may have been done; it ends by itself
         */
        public void release() {
            ReleaseRequest r = ReleaseRequest.newBuilder().setName(name).setKind(LockKind.LOCK_KIND_EXCLUSIVE)
                .setLeaseId(id)
                .build();
            Outcome<ReleaseResponse> o = call(stub -> stub.release(r));
            if (!(o.unsure() && o.tellsNotHeld())) {
                o.orThrow("release", name);
            }
        }
    }

    /**
     * Takes a lock for a fixed time if it is free. Empty: it is not. A call whose answer does not come is repeated at
     * the next address of the client, and gets the same lease.
     *
     * @throws OutcomeUnknownException if no answer came. What may have been taken is released, or ends by itself
     * @throws LockdUnavailableException if no server, or not their store, can be reached. Surely nothing was done
     */
    public Optional<Lease> tryAcquire(String name, Duration lasts, String annotation) {
        String id = (UUID.randomUUID().toString() + UUID.randomUUID()).replace("-", "");
        AcquireRequest r = AcquireRequest.newBuilder().setName(name).setKind(LockKind.LOCK_KIND_EXCLUSIVE)
            .setLease(proto(lasts)).setLeaseId(id).setAnnotation(annotation).setClientName(engine.clientName()).build();
        Outcome<AcquireResponse> o = call(stub -> stub.acquire(r));
        boolean granted = o.failure() == null && o.answer().hasGranted();
        if (o.unsure() && !granted) {
            undo(name, id);
        }
        AcquireResponse a = o.orThrow("take", name);
        return granted ? Optional.of(new Lease(name, id, a.getGranted().getFence())) : Optional.empty();
    }

    /**
     * Releases what may have been taken once a server can be reached, if that is soon, and waits for nothing. A server
     * that was silent may carry out the call later than others are asked, so all are.
     */
    private void undo(String name, String id) {
        ReleaseRequest r = ReleaseRequest.newBuilder().setName(name).setKind(LockKind.LOCK_KIND_EXCLUSIVE)
            .setLeaseId(id).build();
        for (int i = 0; i < engine.channels().targets(); i++) {
            LockServiceGrpc.newFutureStub(engine.channels().unary(engine.channels().target(i)))
                .withCallCredentials(engine.channels().options().getCredentials())
                .withWaitForReady().withDeadlineAfter(UNDO_SECONDS, TimeUnit.SECONDS).release(r);
        }
    }

    private static com.google.protobuf.Duration proto(Duration d) {
        return com.google.protobuf.Duration.newBuilder().setSeconds(d.getSeconds()).setNanos(d.getNano()).build();
    }

    /** What became of a call. unsure: a try that failed may have been carried out, whatever later ones were told. */
    private record Outcome<T>(T answer, Failure failure, boolean unsure) {
        boolean tellsNotHeld() {
            return failure != null && failure.is(Fault.NOT_HELD);
        }

        T orThrow(String verb, String name) {
            if (failure == null) {
                return answer;
            }
            throw Errors.of(verb + " \"" + name + '"', unsure && !tellsNotHeld()
                ? Failure.of(Fault.OUTCOME_UNKNOWN, "the outcome is unknown: " + failure) : failure);
        }
    }

    /** Makes a call, which is repeated at the next address while nobody can answer it. */
    private <T> Outcome<T> call(Function<LockServiceBlockingStub, T> method) {
        long end = System.nanoTime() + engine.answerNanos();
        boolean unsure = false;
        for (int left = Math.max(TRIES, engine.channels().targets());; left--) {
            int here = at;
            Sent sent = new Sent();
            LockServiceBlockingStub stub = LockServiceGrpc
                .newBlockingStub(engine.channels().unary(engine.channels().target(here)))
                .withCallCredentials(engine.channels().options().getCredentials()).withInterceptors(sent)
                .withDeadlineAfter((end - System.nanoTime()) / left, TimeUnit.NANOSECONDS);
            try {
                return new Outcome<>(method.apply(stub), null, unsure);
            } catch (StatusRuntimeException e) {
                Failure f = Failure.of(e.getStatus(), e.getTrailers());
                unsure = unsure || sent.was() && undecided(f);
                boolean away = f.is(Fault.UNAVAILABLE, Fault.OUTCOME_UNKNOWN, Fault.DRAINING);
                if (away) {
                    at = (here + 1) % engine.channels().targets();
                }
                if (!away || left == 1) {
                    return new Outcome<>(null, f, unsure);
                }
            }
        }
    }

    /** Whether a failure leaves open what was done: the server said so, or another one than lockd told it. */
    private static boolean undecided(Failure f) {
        return f.is(Fault.OUTCOME_UNKNOWN) || f.reason().isEmpty() && f.is(Fault.UNAVAILABLE, Fault.OTHER);
    }
}
