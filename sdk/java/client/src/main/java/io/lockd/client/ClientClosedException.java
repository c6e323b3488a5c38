package io.lockd.client;

/** The client was closed. */
public class ClientClosedException extends LockdException {
    private static final long serialVersionUID = 1L;

    ClientClosedException(String message, String reason) {
        super(message, reason);
    }
}
