package io.lockd.client;

/** The time given by {@code waitUpTo} ended before the lock was granted. Nothing is left behind. */
public class LockTimeoutException extends LockdException {
    private static final long serialVersionUID = 1L;

    LockTimeoutException(String message, String reason) {
        super(message, reason);
    }
}
