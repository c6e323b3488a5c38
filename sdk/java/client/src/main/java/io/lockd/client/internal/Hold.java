package io.lockd.client.internal;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/** What a holder has of a name. The grants of a named holder share it, and live as long as each other. */
final class Hold {
    /** How a hold is known inside a session. The kind is a number: a server may tell one that is not known here. */
    record Key(String name, int kind, String holder) {
        static Key of(io.lockd.v1.Hold h) {
            return new Key(h.getName(), h.getKindValue(), h.getHolder());
        }
    }

    /** Somebody saw that the deadline had passed, or that of max_hold: it stays passed. */
    private static final long PASSED = Long.MIN_VALUE;
    private static final long PASSED_MOST = Long.MIN_VALUE + 1;

    final Key key;
    private final AtomicLong deadline;

    // Of the loop:
    /** Those that have not ended, in the order in which they were granted. */
    final List<Grant> grants = new ArrayList<>(1);
    /** Whether the server renews the lease. */
    boolean auto;
    /** By max_hold: no deadline is later; 0 if there is no such bound. */
    volatile long most;
    /** The last shortening that is not answered. */
    Call shortening;
    /** When it is looked at. */
    long rings = Long.MAX_VALUE;

    Hold(Key key, Beats.Until until, long most, boolean auto) {
        this.key = key;
        this.most = most;
        this.deadline = new AtomicLong(last(until));
        this.auto = auto;
    }

    /** One that nobody wants. */
    Hold(Key key) {
        this(key, new Beats.Until(0, false), 0, false);
    }

    /**
     * The deadline that a validity gives, and never after the end of max_hold. One that lasts until that end gives the
     * end that is known since the grant: what is told of it later is the same moment, estimated by a message that may
     * have been on its way for longer.
     */
    private long last(Beats.Until until) {
        if (most == 0) {
            return until.deadline();
        }
        return until.most() ? most : Math.min(until.deadline(), most);
    }

    /** Whether it was max_hold that ended it: that made its deadline. */
    boolean endedByMost() {
        return deadline.get() == PASSED_MOST;
    }

    long end() {
        return deadline.get();
    }

    /** Whether the deadline has passed. Any thread may ask; who is told so is right for ever. */
    boolean passed(long now) {
        for (;;) {
            long end = deadline.get();
            if (end <= PASSED_MOST) {
                return true;
            }
            if (now < end) {
                return false;
            }
            if (deadline.compareAndSet(end, most != 0 && end >= most ? PASSED_MOST : PASSED)) {
                return true;
            }
        }
    }

    /** Moves the deadline later, and says whether it had not passed. */
    boolean raise(Beats.Until later, long now) {
        long to = last(later);
        while (!passed(now)) {
            long end = deadline.get();
            if (end <= PASSED_MOST) {
                return false;
            }
            // While a shortening is not answered nothing else that the server tells counts: it may have been written
            // before.
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
