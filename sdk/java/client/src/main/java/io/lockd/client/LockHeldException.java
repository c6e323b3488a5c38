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

    LockHeldException(String message, String name, Duration retryAfter, String heldBy, String client, String annotation) {
        super(message, "LOCK_BUSY");
        this.name = name;
        this.retryAfter = retryAfter;
        this.heldBy = heldBy;
        this.client = client;
        this.annotation = annotation;
    }

    /** The lock; of several the one in the way, empty if that is not known. */
    public String name() {
        return name;
    }

    /** When that hold ends unless it is renewed or released; zero if that is not known. */
    public Duration retryAfter() {
        return retryAfter;
    }

    /** Begins with {@code <session>:<holder>}, or is the id that another Redis client uses. Empty if it is not known. */
    public String heldBy() {
        return heldBy;
    }

    /** How the client that holds it names itself, for people. Empty where the replica that answered does not know. */
    public String client() {
        return client;
    }

    /** The annotation of that hold, for people, its first 256 bytes. */
    public String annotation() {
        return annotation;
    }
}
