package io.lockd.client;

import java.util.Map;

/** Something went wrong with a lock. What a program can do about it is told by the subclass, and by the reason. */
public class LockdException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final String reason;
    private transient Map<String, String> metadata = Map.of();

    LockdException(String message, String reason) {
        super(message);
        this.reason = reason;
    }

    /** The reason for programs, such as {@code LOCK_UPGRADE}; docs/errors.md lists them. Empty if there is none. */
    public String reason() {
        return reason;
    }

    /**
     * More about some reasons, such as the {@code limit} that was reached, or the {@code field} that is not allowed.
     */
    public Map<String, String> metadata() {
        return metadata == null ? Map.of() : metadata;
    }

    LockdException with(Map<String, String> more) {
        metadata = Map.copyOf(more);
        return this;
    }
}
