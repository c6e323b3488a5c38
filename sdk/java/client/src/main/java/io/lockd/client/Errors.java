package io.lockd.client;

import io.lockd.client.internal.Call.Answer;
import io.lockd.client.internal.Failure;
import io.lockd.client.internal.Fault;
import io.lockd.client.internal.Grant;
import io.lockd.client.internal.Settings;
import io.lockd.v1.Deadlock;
import io.lockd.v1.NotGranted;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;

/** Makes exceptions of failures, where the program called. */
final class Errors {
    private Errors() { }

    /** The exception of a failure, with what was attempted. */
    static LockdException of(String what, Failure f) {
        return classed(what, f).with(f.metadata());
    }

    private static LockdException classed(String what, Failure f) {
        String text = what + ": " + f;
        if (f.is(Fault.OUTCOME_UNKNOWN)) {
            return new OutcomeUnknownException(text, "OUTCOME_UNKNOWN");
        }
        if (f.is(Fault.CLOSED)) {
            return new ClientClosedException(text, "CLIENT_CLOSED");
        }
        if (f.detail() instanceof NotGranted) {
            return held(what, (NotGranted) f.detail());
        }
        if (f.is(Fault.TIMED_OUT)) {
            return new LockTimeoutException(text, "WAIT_TIMEOUT");
        }
        if (f.is(Fault.DEADLOCK)) {
            return deadlock(text, f);
        }
        if (f.is(Fault.LOST)) {
            return new LockLostException(text, "", LostReason.UNKNOWN, "", "", false);
        }
        if (f.is(Fault.NOT_HELD)) {
            return new LockNotHeldException(text, f.reason());
        }
        if (f.is(Fault.FORBIDDEN, Fault.UNAUTHENTICATED, Fault.DENIED)) {
            return new AccessDeniedException(text, f.reason());
        }
        if (f.is(Fault.UNAVAILABLE, Fault.DRAINING, Fault.SESSION_OVER, Fault.NO_ANSWER)) {
            return new LockdUnavailableException(text, f.reason().isEmpty() ? "UNAVAILABLE" : f.reason());
        }
        return new LockdException(text, f.reason());
    }

    private static LockHeldException held(String what, NotGranted n) {
        HolderInfo by = HolderInfo.of(n);
        String text = what + ": the lock is held" + (by.who().isEmpty() ? "" : " by " + by.who());
        return new LockHeldException(text, by, Settings.duration(n.getRetryAfter()));
    }

    private static DeadlockException deadlock(String text, Failure f) {
        List<String> members = List.of();
        if (f.detail() instanceof Deadlock) {
            members = ((Deadlock) f.detail()).getMembersList().stream()
                .map(m -> m.getClientName() + " waits for " + m.getName()).collect(Collectors.toList());
        }
        return new DeadlockException(text + (members.isEmpty() ? "" : ": " + String.join("; ", members)), members);
    }

    /** The exception of a grant that has ended. */
    static LockdException of(String what, String name, Grant.Ending e) {
        switch (e.how()) {
            case LOST:
                return lost(what, name, e);
            case CLOSED:
                return new ClientClosedException(what + ": the client was closed", "CLIENT_CLOSED");
            default:
                return new LockNotHeldException(what + ": the lock was unlocked before", "LOCK_NOT_HELD");
        }
    }

    static LockLostException lost(String what, String name, Grant.Ending e) {
        String text = what + ": the lock was lost: " + e.reason()
            + (e.by().isEmpty() ? "" : " by \"" + e.by() + "\"") + (e.why().isEmpty() ? "" : ": \"" + e.why() + "\"")
            + (e.maxHold() ? ": held for the time of maxHold" : "") + (e.cause() == null ? "" : ": " + e.cause());
        return new LockLostException(text, name, LostReason.of(e.reason()), e.by(), e.why(), e.maxHold());
    }

    /** Waits for an answer, whatever interrupts, and throws what went wrong. */
    static Answer await(String what, CompletableFuture<Answer> answer) {
        Answer a = answer.join();
        if (a.failure() != null) {
            throw of(what, a.failure());
        }
        return a;
    }
}
