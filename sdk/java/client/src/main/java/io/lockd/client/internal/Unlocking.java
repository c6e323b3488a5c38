package io.lockd.client.internal;

import io.lockd.client.internal.Call.Answer;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * The release of a grant that was unlocked, until it is answered. An unlock waits for that within a bound; then the
 * next one waits for the same answer again. It belongs to the loop.
 */
final class Unlocking implements Runnable, Consumer<Answer> {
    private final Grant grant;
    /** Of the unlock that waits; null while there is none. */
    private CompletableFuture<Answer> waits = new CompletableFuture<>();
    private Bounds.Bound bound;
    private Answer told;

    Unlocking(Grant grant) {
        this.grant = grant;
    }

    /** The answer to the first unlock. It is for who made this, before the loop has it. */
    CompletableFuture<Answer> asked() {
        return waits;
    }

    /** Has the release sent. */
    @Override
    public void run() {
        grant.session.release(grant, this);
        if (told == null) {
            begin();
        }
    }

    /** Has another unlock wait. */
    void await(CompletableFuture<Answer> answer) {
        waits = answer;
        if (told == null) {
            begin();
        } else {
            tell();
        }
    }

    private void begin() {
        bound = grant.engine().bounds.begin(this::late);
    }

    private void late() {
        CompletableFuture<Answer> answer = waits;
        waits = null;
        grant.unanswered(this);
        answer.complete(Answer.failed(Failure.of(Fault.NO_ANSWER, "the server did not answer in time"), false));
    }

    /** Takes the answer. */
    @Override
    public void accept(Answer a) {
        told = a;
        if (bound != null) {
            bound.cancel();
        }
        if (waits != null) {
            tell();
        }
    }

    private void tell() {
        CompletableFuture<Answer> answer = waits;
        waits = null;
        if (told.failure() != null && told.failure().is(Fault.SESSION_OVER)) {
            grant.unanswered(this); // nobody knows more
        }
        answer.complete(told);
    }
}
