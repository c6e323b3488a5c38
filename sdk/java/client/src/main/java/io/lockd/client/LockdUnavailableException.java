package io.lockd.client;

/** The server, or its store, cannot be reached. Surely nothing was done. */
public class LockdUnavailableException extends LockdException {
    private static final long serialVersionUID = 1L;

    LockdUnavailableException(String message, String reason) {
        super(message, reason);
    }
}
