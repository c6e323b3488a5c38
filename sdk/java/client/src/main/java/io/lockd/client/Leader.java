package io.lockd.client;

import java.time.Duration;

/**
 * Who leads, as an observer sees it.
 *
 * @param id that of the candidate; for a leader that did not campaign with an SDK it is heldBy
 * @param client the name of the leader's client, empty where the replica that answered does not serve the leader
 * @param annotation that of the candidate, empty likewise
 * @param fence that of the term
 * @param heldBy the leader as the store knows it; empty when nobody leads
 * @param ttl how long the term lasts at least, unless the leader resigns, as known when this was told
 * @param doubt null; else why the server cannot be asked, and this is the leader of before
 */
public record Leader(String id, String client, String annotation, long fence, String heldBy, Duration ttl,
    LockdException doubt) {
    static final Leader NOBODY = new Leader("", "", "", 0, "", Duration.ZERO, null);

    /** Whether nobody leads. */
    public boolean vacant() {
        return heldBy.isEmpty();
    }

    boolean same(Leader other) {
        return heldBy.equals(other.heldBy) && fence == other.fence;
    }

    Leader inDoubt(LockdException why) {
        return new Leader(id, client, annotation, fence, heldBy, ttl, why);
    }
}
