package io.lockd.client;

/** The lock was unlocked before, or was lost without the news having arrived yet. */
public class LockNotHeldException extends LockdException {
    private static final long serialVersionUID = 1L;

    LockNotHeldException(String message, String reason) {
        super(message, reason);
    }
}
