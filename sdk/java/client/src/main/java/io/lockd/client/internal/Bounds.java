package io.lockd.client.internal;

import io.netty.util.concurrent.ScheduledFuture;

/**
 * The bounds of answers that are due within the same time each. Nearly all are cancelled, so they share one timer, and
 * to begin or cancel one is a few writes. It belongs to the loop.
 */
final class Bounds {
    /** Calls something when its time has come, unless it is cancelled before. */
    final class Bound {
        private final long at;
        private Runnable late;
        private Bound before = this;
        private Bound after = this;

        private Bound(long at, Runnable late) {
            this.at = at;
            this.late = late;
        }

        void cancel() {
            before.after = after;
            after.before = before;
            before = this;
            after = this;
            late = null;
        }
    }

    private final Loop loop;
    private final long nanos;
    /** A ring in the order of their times; this one is none. */
    private final Bound end = new Bound(0, null);
    /** null after it rang and there was none left. */
    private ScheduledFuture<?> timer;

    Bounds(Loop loop, long nanos) {
        this.loop = loop;
        this.nanos = nanos;
    }

    Bound begin(Runnable late) {
        Bound b = new Bound(loop.now() + nanos, late);
        b.before = end.before;
        b.after = end;
        end.before.after = b;
        end.before = b;
        if (timer == null) {
            timer = loop.at(b.at, this::ring);
        }
        return b;
    }

    /** It may ring early, when those it was set for were cancelled. */
    private void ring() {
        long now = loop.now();
        for (Bound b = end.after; b != end && b.at <= now; b = end.after) {
            Runnable late = b.late;
            b.cancel();
            late.run();
        }
        timer = end.after == end ? null : loop.at(end.after.at, this::ring);
    }
}
