package io.lockd.client;

import java.time.Duration;

/**
 * A change of the relation with the server.
 *
 * @param state what it is now
 * @param validFor with AT_RISK, how long all locks are still surely held; else zero
 * @param why with DISCONNECTED and INTERRUPTED, for people; else empty
 * @param session with CONNECTED, the id by which the server knows the session; else empty
 * @param ttl of which session it is: the TTL that {@link LockdClient#withTtl} or {@code sessionTtl} asked for, zero if
 *     neither did
 */
public record Status(State state, Duration validFor, String why, String session, Duration ttl) {
    /** The states. */
    public enum State {
        /** A session was opened, or goes on. */
        CONNECTED,
        /** The stream broke, or is silent. The client goes on by itself; until then each lock has its own deadline. */
        INTERRUPTED,
        /** The session ended, and its locks with it. The client opens a new one by itself. */
        DISCONNECTED,
        /** The server asked to go. The session goes on at another one, with its locks. */
        DRAINING,
        /** The server cannot renew leases at the moment. */
        AT_RISK,
        /** The server can renew leases again. */
        SAFE
    }
}
