package io.lockd.client.internal;

import io.lockd.v1.SessionRequest;
import io.lockd.v1.SessionRequestOrBuilder;
import io.lockd.v1.SessionResponse;
import java.util.List;
import java.util.function.Consumer;

/** One request under way. It belongs to the loop once it was submitted. */
public final class Call {
    private SessionRequest.Builder asked;
    /** The same as it is sent; null until it is. */
    private SessionRequest message;
    /** Told the answer, once; or null. */
    Consumer<Answer> then;
    /** Of an Acquire. */
    AcquireAsk asks;
    /** Of an Extend. */
    Grant extended;
    /** Of a Release. */
    Grant frees;
    /** It is a Watch, which the engine repeats by itself. */
    boolean watch;

    /** On the stream at hand. */
    boolean sent;
    /** It was sent on an earlier stream. */
    boolean seen;
    /** Of an Acquire: the stream at hand told that it waits. */
    boolean waits;
    /** Nobody wants the answer any more. */
    boolean abandoned;

    Call(SessionRequest.Builder asked) {
        this.asked = asked;
    }

    /** What is asked, to look at. */
    SessionRequestOrBuilder request() {
        return asked;
    }

    /** Has something else asked instead. */
    void ask(SessionRequest.Builder other) {
        asked = other;
        message = null;
    }

    /** Gives it another id. */
    void number(long id) {
        asked.setRequestId(id);
        message = null;
    }

    /** What is sent. */
    SessionRequest message() {
        if (message == null) {
            message = asked.build();
        }
        return message;
    }

    /** The same, which from here on counts as sent. */
    SessionRequest send() {
        SessionRequest m = message();
        message = null; // it waits for its answer, perhaps for long
        sent = true;
        return m;
    }

    /** What became of a call. unsent says that the server surely never saw it. */
    public record Answer(SessionResponse response, Stream stream, List<Grant> grants, int left, Failure failure,
        boolean unsent) {
        static Answer failed(Failure f, boolean unsent) {
            return new Answer(null, null, List.of(), 0, f, unsent);
        }

        /** The failure of a request whose answer did not come. If it changes something, the outcome may be unknown. */
        Answer missing(boolean changes) {
            Failure why = failure.unavailable();
            return failed(unsent || !changes ? why : Failure.of(Fault.OUTCOME_UNKNOWN, "the outcome is unknown", why),
                unsent);
        }
    }

    long id() {
        return asked.getRequestId();
    }

    /** Whether the answer matters to anybody. */
    boolean tracked() {
        return then != null || frees != null || abandoned;
    }

    /** Whether it is a Release, and not of some permits only. */
    boolean freesAll() {
        return frees != null && asked.getRelease().getKeep() == 0;
    }

    void reply(Answer a) {
        if (then != null && !abandoned) {
            then.accept(a);
        }
    }
}
