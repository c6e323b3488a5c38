package io.lockd.client;

/** Something went wrong with a lock. What a program can do about it is told by the subclass, and by the reason. */
public class LockdException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final String reason;

    LockdException(String message, String reason) {
        super(message);
        this.reason = reason;
    }

    /** The reason for programs, such as {@code LOCK_UPGRADE}; docs/errors.md lists them. Empty if there is none. */
    public String reason() {
        return reason;
    }
}
