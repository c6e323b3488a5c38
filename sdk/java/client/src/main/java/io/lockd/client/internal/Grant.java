package io.lockd.client.internal;

import io.lockd.client.internal.Call.Answer;
import io.lockd.v1.Extend;
import io.lockd.v1.Release;
import io.lockd.v1.SessionRequest;
import io.netty.util.concurrent.ScheduledFuture;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicReference;
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

    private final AtomicReference<Ending> ending = new AtomicReference<>();
    private final Queue<Consumer<Ending>> listeners = new ConcurrentLinkedQueue<>();
    /** The answer to an unlock that did not come in time. */
    private final AtomicReference<CompletableFuture<Answer>> unanswered = new AtomicReference<>();

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
        Ending e = ending.get();
        if (e == null && hold.passed(session.engine.loop.now())) {
            end(hold.endedByMost() ? Ending.MAX_HOLD : Ending.DEADLINE);
            session.engine.loop.execute(() -> session.expire(hold));
            e = ending.get();
        }
        return e;
    }

    /** The time for which it is surely held, in nanoseconds, as far as it is known now. */
    public long remaining() {
        return ended() != null ? 0 : Math.max(hold.end() - session.engine.loop.now(), 0);
    }

    /** Has a loss told, once, at once if it was lost already; in the thread that learns of it. */
    public void onLost(Consumer<Ending> listener) {
        listeners.add(listener);
        Ending e = ended();
        if (e != null) {
            tell(e);
        }
    }

    /** Notes the end. The first one counts. */
    void end(Ending e) {
        if (ending.compareAndSet(null, e)) {
            tell(e);
        }
    }

    private void tell(Ending e) {
        for (Consumer<Ending> l = listeners.poll(); l != null; l = listeners.poll()) {
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
        CompletableFuture<Answer> answer = new CompletableFuture<>();
        if (ended() == null && ending.compareAndSet(null, Ending.UNLOCKED)) {
            CompletableFuture<Answer> told = new CompletableFuture<>();
            session.engine.loop.execute(() -> {
                session.release(this, told::complete);
                await(told, answer);
            });
            return session.engine.unlessClosed(answer);
        }
        CompletableFuture<Answer> told = unanswered.getAndSet(null);
        if (told == null) {
            return CompletableFuture.completedFuture(null);
        }
        session.engine.loop.execute(() -> await(told, answer));
        return session.engine.unlessClosed(answer);
    }

    private void await(CompletableFuture<Answer> told, CompletableFuture<Answer> answer) {
        Engine engine = session.engine;
        ScheduledFuture<?> late = told.isDone() ? null : engine.loop.after(engine.settings.answerNanos, () -> {
            unanswered.set(told);
            answer.complete(Answer.failed(Failure.of(Fault.NO_ANSWER, "the server did not answer in time"), false));
        });
        told.thenAccept(a -> {
            Loop.cancel(late);
            if (a.failure() != null && a.failure().is(Fault.SESSION_OVER)) {
                unanswered.set(told); // nobody knows more
            }
            answer.complete(a);
        });
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
