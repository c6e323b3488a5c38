package io.lockd.client;

import java.time.Duration;

/** Somebody else holds the lock. Only from requests that do not wait. */
public class LockHeldException extends LockdException {
    private static final long serialVersionUID = 1L;

    private final String name;
    private final Duration retryAfter;
    private final String heldBy;
    private final String client;
    private final String annotation;
    private final String peer;
    private final Duration heldFor;

    LockHeldException(String message, String name, Duration retryAfter, String heldBy, String client, String annotation,
        String peer, Duration heldFor) {
        super(message, "LOCK_BUSY");
        this.name = name;
        this.retryAfter = retryAfter;
        this.heldBy = heldBy;
        this.client = client;
        this.annotation = annotation;
        this.peer = peer;
        this.heldFor = heldFor;
    }

    /** The lock; of several the one in the way, empty if that is not known. */
    public String name() {
        return name;
    }

    /** When that hold ends unless it is renewed or released; zero if that is not known. */
    public Duration retryAfter() {
        return retryAfter;
    }

    /**
     * Begins with {@code <session>:<holder>}, or is the id that another Redis client uses. Empty if it is not known.
     */
    public String heldBy() {
        return heldBy;
    }

    /** How the client that holds it names itself, for people. Empty where the replica that answered does not know. */
    public String client() {
        return client;
    }

    /** The network address that the client came from, known where client is; else empty. */
    public String peer() {
        return peer;
    }

    /** For how long it holds it, known where client is; else zero. */
    public Duration heldFor() {
        return heldFor;
    }

    /** The annotation of that hold, for people, its first 256 bytes. */
    public String annotation() {
        return annotation;
    }
}
