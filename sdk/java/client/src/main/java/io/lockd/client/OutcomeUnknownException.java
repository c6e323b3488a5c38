package io.lockd.client;

/**
 * What was asked for may have been done, or not: the answer did not come. An unlock may be repeated, or left: the lease
 * then ends by itself. After an extension the old deadline counts, after a shortening the new one. A grant that comes
 * late is released; if the session ends before that, the name may stay taken for a lease.
 */
public class OutcomeUnknownException extends LockdException {
    private static final long serialVersionUID = 1L;

    OutcomeUnknownException(String message, String reason) {
        super(message, reason);
    }
}
