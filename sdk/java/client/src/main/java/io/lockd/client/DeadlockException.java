package io.lockd.client;

import java.util.List;

/**
 * The request waited in a deadlock, and the client was made with {@code failOnDeadlock}. Unlock what this thread of
 * work holds, and begin again.
 */
public class DeadlockException extends LockdException {
    private static final long serialVersionUID = 1L;

    private final transient List<String> members;

    DeadlockException(String message, List<String> members) {
        super(message, "DEADLOCK");
        this.members = List.copyOf(members);
    }

    /** Those who wait for each other, for people: each waits for what the next one holds. */
    public List<String> members() {
        return members == null ? List.of() : members;
    }
}
