package io.lockd.client.internal;

import com.google.protobuf.Duration;
import io.lockd.v1.Validity;

/**
 * Remembers when the last heartbeats of a stream were sent, because what the server tells about validity counts from
 * there.
 */
final class Beats {
    private static final int KEPT = 64;
    /** More than any time that matters. What a server tells is cut to it, so that no sum or product overflows. */
    private static final long LONGEST_SECONDS = 10L * 365 * 24 * 3600;

    /** When Open was sent. */
    final long opened;
    private final long[] sent = new long[KEPT];
    private long last;

    Beats(long opened) {
        this.opened = opened;
    }

    /** Notes a heartbeat that is about to be sent, and returns its sent_id. */
    long next(long now) {
        last++;
        sent[(int) (last % KEPT)] = now;
        return last;
    }

    /** When a heartbeat was sent, or an earlier time if that is not known: a deadline that is too early is safe. */
    long at(long id) {
        return id <= 0 || id > last || last - id >= KEPT ? opened : sent[(int) (id % KEPT)];
    }

    /**
     * Until when something is valid, as a server told it.
     *
     * @param most whether that is until the end of its max_hold
     */
    record Until(long deadline, boolean most) {}

    /** When a validity ends. */
    Until until(Validity v) {
        return new Until(deadline(v), v.getUntilMaxHold());
    }

    /**
     * When a validity ends. The server had the anchor later than we sent it, so the true end is no earlier.
     *
     * <pre>deadline = time at which the anchor was sent + anchor_age + remaining</pre>
     */
    long deadline(Validity v) {
        return deadline(v, v.getRemaining());
    }

    /** When a time ends that counts as a validity does. */
    long deadline(Validity v, Duration left) {
        return at(v.getAnchor()) + nanos(v.getAnchorAge()) + nanos(left);
    }

    static long nanos(Duration d) {
        return Math.max(-LONGEST_SECONDS, Math.min(d.getSeconds(), LONGEST_SECONDS)) * 1_000_000_000L + d.getNanos();
    }

    static Duration duration(long nanos) {
        return Duration.newBuilder()
            .setSeconds(nanos / 1_000_000_000L).setNanos((int) (nanos % 1_000_000_000L)).build();
    }
}
