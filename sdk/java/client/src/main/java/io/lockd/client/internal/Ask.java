package io.lockd.client.internal;

import io.lockd.client.internal.Call.Answer;
import io.lockd.v1.Limits;
import io.netty.util.concurrent.ScheduledFuture;
import java.util.concurrent.CompletableFuture;

/**
 * What somebody asked for, until it is answered. It waits for a session, is asked in it, and again in the next one if
 * that ended and it may be asked again. It belongs to the loop.
 */
public abstract class Ask implements Runnable {
    final Engine engine;
    /** When there must be a session to ask in, or late is the failure; 0 is no bound. */
    long until;
    Fault late = Fault.UNAVAILABLE;
    /** When the answer must have come; 0 is no bound. */
    long by;
    /** It waits on when an attempt to connect fails. */
    boolean patient;
    /** An answer that does not come leaves the outcome unknown. */
    boolean changes;
    /** It is not asked again if it may have been done. */
    boolean once;

    private final CompletableFuture<Answer> answer = new CompletableFuture<>();
    private ScheduledFuture<?> timer;
    private Session session;
    private Call call;
    /** What may be told when the time for a session is over. */
    private Fault bound;

    Ask(Engine engine) {
        this.engine = engine;
    }

    /** Refuses what is known to be refused; with null, before the server told its limits. */
    abstract Failure refused(Limits limits);

    /** Is called each time that it is asked. */
    abstract Call nextCall(Session s);

    /** Asks, and returns the answer. Dependents of it run in the loop. */
    public CompletableFuture<Answer> ask() {
        Failure no = refused(null);
        if (no == null && !engine.enter()) {
            no = Failure.invalid("QUOTA_REQUESTS", "too many requests of this client wait for an answer");
        }
        if (no != null) {
            return CompletableFuture.completedFuture(Answer.failed(no, true));
        }
        engine.loop.execute(this);
        return engine.unlessClosed(answer);
    }

    /** Whether there is an answer. Any thread may ask. */
    public boolean answered() {
        return answer.isDone();
    }

    /** Takes it back: the answer is CANCELLED, unless another one was there before. */
    public void cancel() {
        engine.loop.execute(() -> {
            Failure cancelled = Failure.of(Fault.CANCELLED, "the wait was cancelled");
            if (answer.isDone()) {
                return;
            }
            if (call == null) {
                engine.waiting.remove(this);
                done(Answer.failed(cancelled, true));
            } else {
                session.abandon(call, cancelled);
            }
        });
    }

    /** Begins, in the loop. */
    @Override
    public final void run() {
        call = null;
        if (engine.closed) {
            done(Answer.failed(Failure.of(Fault.CLOSED, "the client is closed"), true));
        } else if (engine.open) {
            send(engine.session);
        } else if (engine.connectFailure != null && engine.connecting && !patient) {
            done(Answer.failed(engine.connectFailure.unavailable(), true));
        } else {
            awaitSession();
        }
    }

    private void awaitSession() {
        engine.waiting.add(this);
        engine.connect();
        long now = engine.loop.now();
        long end = until;
        bound = late;
        if (engine.settings.connectWaitNanos > 0 && (end == 0 || now + engine.settings.connectWaitNanos < end)) {
            end = now + engine.settings.connectWaitNanos;
            bound = Fault.UNAVAILABLE;
        }
        if (end != 0) {
            timer = engine.loop.at(end, this::tooLate);
        }
    }

    private void tooLate() {
        engine.waiting.remove(this);
        Failure why = engine.connectFailure == null ? null : engine.connectFailure.unavailable();
        done(Answer.failed(why != null && bound == Fault.UNAVAILABLE ? why : Failure.of(bound, lateText(bound), why),
            true));
    }

    private static String lateText(Fault f) {
        return f == Fault.TIMED_OUT ? "the wait ended before the lock was granted"
            : "the lock service cannot be reached";
    }

    /** There is a session now. */
    void usable() {
        Loop.cancel(timer);
        send(engine.session);
    }

    /** An attempt to connect failed. It says whether it waits on. */
    boolean bears(Failure why, boolean last) {
        if (patient && !last) {
            return true;
        }
        Loop.cancel(timer);
        done(Answer.failed(why.unavailable(), true));
        return false;
    }

    /** The client is closed while it waits for a session. */
    void closed() {
        Loop.cancel(timer);
        done(Answer.failed(Failure.of(Fault.CLOSED, "the client is closed"), true));
    }

    private void send(Session s) {
        long now = engine.loop.now();
        Failure no = until != 0 && until <= now ? Failure.of(late, lateText(late)) : refused(s.limits);
        if (no == null && s.pending.size() >= Engine.MAX_ASKS) { // nobody waits for most of them any more
            no = Failure.invalid("QUOTA_REQUESTS", "the server leaves too many requests without an answer");
        }
        if (no != null) {
            done(Answer.failed(no, true));
            return;
        }
        session = s;
        call = nextCall(s);
        call.then = this::answered;
        if (!s.submit(call)) {
            answered(Answer.failed(Failure.of(Fault.SESSION_OVER, "the session ended"), true));
        } else if (by != 0) {
            Call sent = call;
            timer = engine.loop.at(by, () ->
                s.abandon(sent, Failure.of(Fault.NO_ANSWER, "the server did not answer in time")));
        }
    }

    private void answered(Answer a) {
        Loop.cancel(timer);
        Failure f = a.failure();
        boolean over = f != null && f.is(Fault.SESSION_OVER);
        if (f != null && f.is(Fault.DRAINING) || over && (a.unsent() || !once)) {
            engine.move(session, true);
            run();
            return;
        }
        boolean given = f != null && (over || f.is(Fault.NO_ANSWER, Fault.BROKEN) || once
            && f.fault == Fault.CANCELLED);
        done(given ? a.missing(changes) : a);
    }

    void done(Answer a) {
        if (answer.complete(a)) {
            engine.leave();
        }
    }
}
