package io.lockd.client.internal;

import io.lockd.client.internal.Call.Answer;
import io.lockd.v1.Extend;
import io.lockd.v1.Release;
import io.lockd.v1.SessionRequest;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicReferenceFieldUpdater;
import java.util.function.Consumer;

/** A lock that was granted. It ends once and for good. All public methods may be called by any thread. */
public final class Grant {
    /** How a grant ended. */
    public enum How { UNLOCKED, CLOSED, LOST }

    /**
     * The end of a grant. reason is a LostReason; by and why are of a forced release; cause is what ended the session.
     */
    public record Ending(How how, String reason, String by, String why, Failure cause, boolean maxHold) {
        static final Ending UNLOCKED = new Ending(How.UNLOCKED, "", "", "", null, false);
        static final Ending CLOSED = new Ending(How.CLOSED, "", "", "", null, false);
        public static final Ending DEADLINE = lost("DEADLINE_PASSED", null);

        static final Ending MAX_HOLD = new Ending(How.LOST, "EXPIRED", "", "", null, true);

        static Ending lost(String reason, Failure cause) {
            return new Ending(How.LOST, reason, "", "", cause, false);
        }
    }

    final Session session;
    final Hold hold;
    final long fence;
    final long acquiredBy;
    final long granted;
    final String annotation;
    /** Of a semaphore. Of the loop. */
    int permits;

    // There are many grants, most of which have no listener and are unlocked once.
    private static final AtomicReferenceFieldUpdater<Grant, Ending> ENDING =
        AtomicReferenceFieldUpdater.newUpdater(Grant.class, Ending.class, "ending");
    @SuppressWarnings("rawtypes")
    private static final AtomicReferenceFieldUpdater<Grant, Queue> LISTENERS =
        AtomicReferenceFieldUpdater.newUpdater(Grant.class, Queue.class, "listeners");
    private static final AtomicReferenceFieldUpdater<Grant, Unlocking> UNANSWERED =
        AtomicReferenceFieldUpdater.newUpdater(Grant.class, Unlocking.class, "unanswered");

    private volatile Ending ending;
    /** null while there was none. */
    private volatile Queue<Consumer<Ending>> listeners;
    /** An unlock whose answer did not come in time. */
    private volatile Unlocking unanswered;

    Grant(Session session, Hold hold, io.lockd.v1.Hold told, String annotation, int permits) {
        this.session = session;
        this.hold = hold;
        this.fence = told.getFence();
        this.acquiredBy = told.getAcquiredBy();
        this.granted = session.engine.loop.now();
        this.annotation = annotation;
        this.permits = permits;
    }

    public String name() {
        return hold.key.name();
    }

    public int kind() {
        return hold.key.kind();
    }

    public Engine engine() {
        return session.engine;
    }

    public long fence() {
        return fence;
    }

    /** How it ended, null while it is held. It reads the clock. */
    public Ending ended() {
        Ending e = ending;
        if (e == null && hold.passed(session.engine.loop.now())) {
            end(hold.endedByMost() ? Ending.MAX_HOLD : Ending.DEADLINE);
            session.engine.loop.execute(() -> session.expire(hold));
            e = ending;
        }
        return e;
    }

    /** The time for which it is surely held, in nanoseconds, as far as it is known now. */
    public long remaining() {
        return ended() != null ? 0 : Math.max(hold.end() - session.engine.loop.now(), 0);
    }

    /** Has a loss told, once, at once if it was lost already; in the thread that learns of it. */
    public void onLost(Consumer<Ending> listener) {
        LISTENERS.compareAndSet(this, null, new ConcurrentLinkedQueue<>());
        listeners.add(listener);
        Ending e = ended();
        if (e != null) {
            tell(e);
        }
    }

    /** Notes the end. The first one counts. */
    void end(Ending e) {
        if (ENDING.compareAndSet(this, null, e) && listeners != null) {
            tell(e);
        }
    }

    private void tell(Ending e) {
        Queue<Consumer<Ending>> untold = listeners;
        for (Consumer<Ending> l = untold.poll(); l != null; l = untold.poll()) {
            if (e.how() == How.LOST) {
                l.accept(e);
            }
        }
    }

    /**
     * Ends it, and has the release sent. The answer comes within a time, or fails with NO_ANSWER; then the next unlock
     * waits for the same answer again. The answer is null if it had ended before.
     */
    public CompletableFuture<Answer> unlock() {
        if (ended() == null && ENDING.compareAndSet(this, null, Ending.UNLOCKED)) {
            Unlocking u = new Unlocking(this);
            CompletableFuture<Answer> answer = u.asked();
            session.engine.loop.execute(u);
            return session.engine.unlessClosed(answer);
        }
        Unlocking u = UNANSWERED.getAndSet(this, null);
        if (u == null) {
            return CompletableFuture.completedFuture(null);
        }
        CompletableFuture<Answer> answer = new CompletableFuture<>();
        session.engine.loop.execute(() -> u.await(answer));
        return session.engine.unlessClosed(answer);
    }

    /** Has the next unlock wait for the same answer. */
    void unanswered(Unlocking u) {
        unanswered = u;
    }

    Call releaseCall() {
        Call c = new Call(SessionRequest.newBuilder().setRelease(releaseOf(0)));
        c.frees = this;
        return c;
    }

    private Release.Builder releaseOf(int keep) {
        Hold.Key key = hold.key;
        return Release.newBuilder().setName(key.name()).setKindValue(key.kind()).setHolder(key.holder()).setFence(fence)
            .setKeep(keep);
    }

    /** Releases all permits but some. */
    public CompletableFuture<Answer> keepPermits(int keep) {
        Call c = new Call(SessionRequest.newBuilder().setRelease(releaseOf(keep)));
        c.frees = this;
        return session.within(this, c, false);
    }

    /** Asks for another lease: 0 nanoseconds are an auto lease. With mustBeFixed one that is renewed is refused. */
    public CompletableFuture<Answer> extend(long lease, boolean mayShorten, boolean mustBeFixed) {
        Hold.Key key = hold.key;
        Extend.Builder e = Extend.newBuilder().setName(key.name()).setKindValue(key.kind()).setHolder(key.holder())
            .setFence(fence).setMayShorten(mayShorten);
        if (lease > 0) {
            e.setLease(Beats.duration(lease));
        }
        Call c = new Call(SessionRequest.newBuilder().setExtend(e));
        c.extended = this;
        return session.within(this, c, mustBeFixed);
    }

    io.lockd.v1.Hold proto() {
        Hold.Key key = hold.key;
        return io.lockd.v1.Hold.newBuilder().setName(key.name()).setKindValue(key.kind()).setHolder(key.holder())
            .setFence(fence).setAcquiredBy(acquiredBy).build();
    }
}
