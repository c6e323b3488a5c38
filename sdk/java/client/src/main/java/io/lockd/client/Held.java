package io.lockd.client;

import io.lockd.client.internal.Call.Answer;
import io.lockd.client.internal.Fault;
import io.lockd.client.internal.Grant;
import io.lockd.client.internal.Settings;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * A lock that was granted. It ends by {@code unlock} or {@code close}, or by being lost, once and for good. It belongs
 * to no thread: all methods may be called at any time by any.
 * <p>
 * Questions never ask the server. They read the clock: a process that was stopped past the deadline is told so by its
 * first question.
 */
public final class Held implements AutoCloseable {
    private static final LockKind[] KINDS = LockKind.values();

    static {
        new Loss(null, null).load(); // what tells a loss is there before the first one
    }

    final Grant grant;

    Held(Grant grant) {
        this.grant = grant;
    }

    /** The name that is locked. */
    public String name() {
        return grant.name();
    }

    /** How it is locked. */
    public LockKind kind() {
        return KINDS[Math.max(grant.kind() - 1, 0)];
    }

    /**
     * The token of this grant. Give it to the resource with each access: later grants of the name have greater ones, so
     * a resource that refuses a smaller one than it has seen is safe from late holders.
     */
    public long fence() {
        return grant.fence();
    }

    /** Whether it is still held. */
    public boolean isHeld() {
        return grant.ended() == null;
    }

    /** For how long it is surely held, as far as that is known now; zero when it has ended. Renewals make it longer. */
    public Duration remaining() {
        return Duration.ofNanos(grant.remaining());
    }

    /**
     * Does nothing while the lock is held.
     *
     * @throws LockLostException if it was lost
     * @throws LockNotHeldException if it was unlocked
     * @throws ClientClosedException if the client was closed
     */
    public void check() {
        Grant.Ending e = grant.ended();
        if (e != null) {
            throw Errors.of("check", name(), e);
        }
    }

    /**
     * Has a function told that the lock is lost, once; at once if it was lost already, and never after an unlock. It is
     * called by the client's thread for losses, one function after the other, so it should be short: one that does not
     * return keeps the others for a second. Several functions may be told.
     */
    public Held onLost(Consumer<LockLostException> told) {
        grant.onLost(new Loss(this, told));
        return this;
    }

    /** Tells a loss in the thread for losses. */
    private static final class Loss implements Consumer<Grant.Ending>, Runnable {
        private final Held held;
        private final Consumer<LockLostException> told;
        private Grant.Ending how;

        private Loss(Held held, Consumer<LockLostException> told) {
            this.held = held;
            this.told = told;
        }

        private void load() {
            Errors.lost("", "", Grant.Ending.DEADLINE);
        }

        @Override
        public void accept(Grant.Ending e) {
            how = e;
            held.grant.engine().losses().execute(this);
        }

        @Override
        public void run() {
            told.accept(Errors.lost(held.quoted(), held.name(), how));
        }
    }

    /** How it ended, for views on it; null while it is held. */
    LockLostException loss() {
        Grant.Ending e = grant.ended();
        return e != null && e.how() == Grant.How.LOST ? Errors.lost(quoted(), name(), e) : null;
    }

    /**
     * Makes a fixed lease last at least so long from now. It never makes it shorter. Doing it twice is fine.
     *
     * @throws LockdException with the reason {@code LEASE_IS_AUTO} if the lease is renewed anyway
     * @throws LockLostException if the lock was lost, perhaps meanwhile
     * @throws OutcomeUnknownException if the answer did not come: the old deadline counts
     */
    public void extend(Duration lease) {
        change("extend ", positive(lease), false, true);
    }

    /**
     * Makes the lease fixed, to end so long from now, also if it would have ended later or is renewed. The earlier end
     * counts from the call on. Doing it twice is fine.
     *
     * @throws LockLostException if the lock was lost, perhaps meanwhile
     * @throws OutcomeUnknownException if the answer did not come: the earlier end counts here, and the name may stay
     *     taken
     *     until the later one
     */
    public void shorten(Duration lease) {
        change("shorten ", positive(lease), true, false);
    }

    /** Makes the lease fixed, to end no earlier than so long from now: it is not renewed any more. Else like extend. */
    public void makeFixed(Duration lease) {
        change("make fixed ", positive(lease), false, false);
    }

    /** Has the lease renewed for as long as the server hears this client. Else like extend. */
    public void makeAuto() {
        change("make auto ", 0, false, false);
    }

    private static long positive(Duration lease) {
        if (lease.isNegative() || lease.isZero()) {
            throw new IllegalArgumentException("a lease of " + lease);
        }
        return Settings.nanos(lease);
    }

    private void change(String verb, long lease, boolean shorten, boolean mustBeFixed) {
        asked(verb, () -> grant.extend(lease, shorten, mustBeFixed));
    }

    /** Asks something about the lock, which may end meanwhile. */
    private Answer asked(String verb, java.util.function.Supplier<CompletableFuture<Answer>> question) {
        Grant.Ending e = grant.ended();
        if (e == null) {
            Answer a = question.get().join();
            e = grant.ended();
            if (a.failure() != null && (e == null || a.failure().is(Fault.NO_ANSWER))) {
                throw Errors.of(verb + quoted(), a.failure());
            }
            if (e == null) {
                return a;
            }
        }
        throw Errors.of(verb + quoted(), name(), e);
    }

    /**
     * Releases all permits of a semaphore but some, at least 1, and returns how many are left. Doing it twice is fine.
     *
     * @throws OutcomeUnknownException if the answer did not come: it may have been done
     */
    public int keepPermits(int permits) {
        if (permits < 1 || kind() != LockKind.SEMAPHORE) {
            throw new IllegalArgumentException("only a semaphore has permits, and to keep none is unlock");
        }
        return asked("keep permits of ", () -> grant.keepPermits(permits)).left();
    }

    /**
     * Releases the lock. It ends before the server is asked. It waits for the answer, whatever interrupts the thread,
     * but not for longer than the answer timeout.
     *
     * @throws LockLostException if it had been lost
     * @throws LockNotHeldException if it was unlocked before, or the server knows of a loss that had not arrived yet
     * @throws OutcomeUnknownException if the answer did not come. The name is free when the lease ends, at the latest,
     *     as
     *     nobody renews it. Another unlock waits for the same answer again
     */
    public void unlock() {
        throwUnlessReleased(grant.unlock().join());
    }

    /** Like {@code unlock}, for those who do not wait. To cancel the future means nothing to the release. */
    public CompletableFuture<Void> unlockAsync() {
        return grant.unlock().thenAcceptAsync(this::throwUnlessReleased, grant.engine().executor());
    }

    /** Like {@code unlockAsync}, in no thread of its own; fine if it was unlocked before. */
    CompletableFuture<Void> unlockAsyncUnlessDone() {
        return grant.unlock().thenAccept(a -> {
            Grant.Ending e = grant.ended();
            if (a != null || e.how() != Grant.How.UNLOCKED) {
                throwUnlessReleased(a);
            }
        });
    }

    private void throwUnlessReleased(Answer a) {
        if (a == null) {
            throw Errors.of("unlock " + quoted(), name(), grant.ended());
        }
        if (a.failure() != null) {
            throw Errors.of("unlock " + quoted(), unknown(a)
                ? io.lockd.client.internal.Failure.of(Fault.OUTCOME_UNKNOWN, "no answer came") : a.failure());
        }
    }

    private static boolean unknown(Answer a) {
        return a.failure().is(Fault.NO_ANSWER, Fault.SESSION_OVER);
    }

    /**
     * Is {@code unlock} for try-with-resources: it does nothing if the lock was unlocked before, and says nothing if
     * the outcome is unknown, because the lease then ends by itself.
     *
     * @throws LockLostException if it had been lost: what was done under it may have met others
     */
    @Override
    public void close() {
        Answer a = grant.unlock().join();
        LockLostException lost = a == null ? loss() : null;
        if (lost != null) {
            throw lost;
        }
        if (a != null && a.failure() != null && a.failure().is(Fault.NOT_HELD)) {
            throwUnlessReleased(a);
        }
    }

    private String quoted() {
        return '"' + name() + '"';
    }

    @Override
    public String toString() {
        return kind() + " " + quoted() + " fence " + fence() + (isHeld() ? "" : ", ended");
    }
}
