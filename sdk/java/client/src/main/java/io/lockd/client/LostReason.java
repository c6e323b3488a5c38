package io.lockd.client;

/** Why a lock was lost. */
public enum LostReason {
    /** The server could not renew the lease in time, or it was a fixed one. */
    EXPIRED,
    /** Somebody freed the name by force. */
    FORCED,
    /** The store lost its data. */
    DATA_LOSS,
    /** The session ended, and could not go on in another stream. */
    SESSION_ENDED,
    /** No majority of the stores holds it. */
    NO_QUORUM,
    /** This client may lock the name no more. */
    FORBIDDEN,
    /** The time ended until which this client knew the lease to be good, and it was told of no renewal. */
    DEADLINE_PASSED,
    /** A newer server told a reason that this client does not know. */
    UNKNOWN;

    static LostReason of(String name) {
        for (LostReason r : values()) {
            if (r.name().equals(name)) {
                return r;
            }
        }
        return UNKNOWN;
    }
}
