package io.lockd.client;

import java.time.Duration;

/** Somebody else holds the lock. Only from requests that do not wait. */
public class LockHeldException extends LockdException {
    private static final long serialVersionUID = 1L;

    private final HolderInfo holder;
    private final Duration retryAfter;

    LockHeldException(String message, HolderInfo holder, Duration retryAfter) {
        super(message, "LOCK_BUSY");
        this.holder = holder;
        this.retryAfter = retryAfter;
    }

    /** Who holds it, as far as known. */
    public HolderInfo holder() {
        return holder;
    }

    /** The lock; of several the one in the way. */
    public String name() {
        return holder.name();
    }

    /** When that hold ends unless it is renewed or released; zero if that is not known. */
    public Duration retryAfter() {
        return retryAfter;
    }

    /**
     * Begins with {@code <session>:<holder>}, or is the id that another Redis client uses. Empty if it is not known.
     */
    public String heldBy() {
        return holder.heldBy();
    }

    /** How the client that holds it names itself, for people. Empty where the replica that answered does not know. */
    public String client() {
        return holder.client();
    }

    /** The network address that the client came from, known where client is; else empty. */
    public String peer() {
        return holder.peer();
    }

    /** For how long it holds it, known where client is; else zero. */
    public Duration heldFor() {
        return holder.heldFor();
    }

    /** The annotation of that hold, for people, its first 256 bytes. */
    public String annotation() {
        return holder.annotation();
    }
}
