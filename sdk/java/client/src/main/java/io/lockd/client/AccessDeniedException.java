package io.lockd.client;

/**
 * The server does not let this client do that: {@code FORBIDDEN}, or does not know who it is: {@code UNAUTHENTICATED}
 * and others, see docs/errors.md.
 */
public class AccessDeniedException extends LockdException {
    private static final long serialVersionUID = 1L;

    AccessDeniedException(String message, String reason) {
        super(message, reason);
    }
}
