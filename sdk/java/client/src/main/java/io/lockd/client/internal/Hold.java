package io.lockd.client.internal;

import io.lockd.v1.LockKind;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/** What a holder has of a name. The grants of a named holder share it, and live as long as each other. */
final class Hold {
    /** How a hold is known inside a session. */
    record Key(String name, LockKind kind, String holder) {
        static Key of(io.lockd.v1.Hold h) {
            return new Key(h.getName(), h.getKind(), h.getHolder());
        }
    }

    /** Somebody saw that the deadline had passed: it stays passed. */
    private static final long PASSED = Long.MIN_VALUE;

    final Key key;
    private final AtomicLong deadline;

    // Of the loop:
    /** Those that have not ended, in the order in which they were granted. */
    final List<Grant> grants = new ArrayList<>(1);
    /** Whether the server renews the lease. */
    boolean auto;
    /** The last shortening that is not answered. */
    Call shortening;

    Hold(Key key, long deadline, boolean auto) {
        this.key = key;
        this.deadline = new AtomicLong(deadline);
        this.auto = auto;
    }

    long end() {
        return deadline.get();
    }

    /** Whether the deadline has passed. Any thread may ask; who is told so is right for ever. */
    boolean passed(long now) {
        for (;;) {
            long end = deadline.get();
            if (end == PASSED) {
                return true;
            }
            if (now < end) {
                return false;
            }
            if (deadline.compareAndSet(end, PASSED)) {
                return true;
            }
        }
    }

    /** Moves the deadline later, and says whether it had not passed. */
    boolean raise(long to, long now) {
        while (!passed(now)) {
            long end = deadline.get();
            if (end == PASSED) {
                return false;
            }
            // While a shortening is not answered nothing else that the server tells counts: it may have been written before.
            if (to <= end || shortening != null || deadline.compareAndSet(end, to)) {
                return true;
            }
        }
        return false;
    }

    /** Moves the deadline earlier. */
    void lower(long to) {
        deadline.getAndUpdate(end -> Math.min(end, to));
    }
}
