package io.lockd.client.locks;

import io.lockd.client.LockHeldException;
import io.lockd.client.LockLostException;
import io.lockd.client.LockNotHeldException;
import io.lockd.client.LockTimeoutException;
import io.lockd.client.LockdException;
import io.lockd.client.Request;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * What a lock of threads is made of: each thread counts its holds of one grant, which is asked for once and released
 * once.
 *
 * @param <H> what is granted
 */
abstract class ThreadOwned<H> implements RLock {
    /** What a thread holds. Only that thread changes it. */
    static final class Entry {
        private final Object held;
        private int count = 1;
        private boolean renewed;
        /** The thread asked, and was told that it does not hold the lock any more. */
        private boolean told;

        private Entry(Object held, boolean renewed) {
            this.held = held;
            this.renewed = renewed;
        }
    }

    final LockdLocks locks;
    private final Object id;

    ThreadOwned(LockdLocks locks, Object id) {
        this.locks = locks;
        this.id = id;
    }

    abstract Request<?, H> request();

    abstract void check(H held);

    abstract void prolong(H held, Duration lease);

    abstract void renew(H held);

    abstract void release(H held);

    private LockdLocks.Key key() {
        return new LockdLocks.Key(id, Thread.currentThread());
    }

    private Entry entry() {
        return locks.entries.get(key());
    }

    @SuppressWarnings("unchecked")
    private H held(Entry e) {
        return (H) e.held;
    }

    /** What this thread holds, null if it does not, or not any more. */
    H mine() {
        Entry e = entry();
        return e == null || over(e) ? null : held(e);
    }

    private boolean over(Entry e) {
        try {
            check(held(e));
            return false;
        } catch (LockdException lost) {
            return true;
        }
    }

    /** What this thread holds, null if it does not, or not any more: which it knows from now on. */
    private Entry tell() {
        Entry e = entry();
        if (e != null && over(e)) {
            e.told = true;
            return null;
        }
        return e;
    }

    /** Holds once more what this thread holds, and says whether it did. A lease is only made longer. */
    private boolean again(long lease, TimeUnit unit) {
        Entry e = entry();
        if (e == null) {
            return false;
        }
        if (e.told) { // a job that ends as Redisson's users write it, "if (isHeldByCurrentThread()) unlock()", leaves it
            locks.entries.remove(key());
            return false;
        }
        check(held(e));
        if (lease <= 0 && !e.renewed) {
            renew(held(e));
            e.renewed = true;
        } else if (lease > 0 && !e.renewed) {
            prolong(held(e), Duration.ofNanos(unit.toNanos(lease)));
        }
        e.count++;
        return true;
    }

    /** A new request of this thread. */
    private Request<?, H> fresh(long lease, TimeUnit unit) {
        Request<?, H> r = request();
        r.holder("thread-" + Thread.currentThread().getId());
        if (lease > 0) {
            r.lease(Duration.ofNanos(unit.toNanos(lease)));
        }
        return r;
    }

    private boolean holds(H held, long lease) {
        locks.entries.put(key(), new Entry(held, lease <= 0));
        return true;
    }

    @Override
    public void lock() {
        lock(-1, TimeUnit.SECONDS);
    }

    @Override
    public void lock(long lease, TimeUnit unit) {
        if (!again(lease, unit)) {
            holds(fresh(lease, unit).acquireUninterruptibly(), lease);
        }
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        lockInterruptibly(-1, TimeUnit.SECONDS);
    }

    @Override
    public void lockInterruptibly(long lease, TimeUnit unit) throws InterruptedException {
        throwIfInterrupted();
        if (!again(lease, unit)) {
            holds(fresh(lease, unit).acquire(), lease);
        }
    }

    private static void throwIfInterrupted() throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
    }

    @Override
    public boolean tryLock() {
        if (again(-1, TimeUnit.SECONDS)) {
            return true;
        }
        try {
            return holds(fresh(-1, TimeUnit.SECONDS).waitUpTo(Duration.ZERO).acquireUninterruptibly(), -1);
        } catch (LockHeldException e) {
            return false;
        }
    }

    @Override
    public boolean tryLock(long wait, TimeUnit unit) throws InterruptedException {
        return tryLock(wait, -1, unit);
    }

    @Override
    public boolean tryLock(long wait, long lease, TimeUnit unit) throws InterruptedException {
        throwIfInterrupted();
        if (again(lease, unit)) {
            return true;
        }
        try {
            Duration bound = Duration.ofNanos(Math.max(unit.toNanos(wait), 0));
            return holds(fresh(lease, unit).waitUpTo(bound).acquire(), lease);
        } catch (LockHeldException | LockTimeoutException e) {
            return false;
        }
    }

    @Override
    public void unlock() {
        Entry e = entry();
        if (e == null) {
            throw new IllegalMonitorStateException("this thread does not hold " + getName());
        }
        try {
            if (e.count > 1) {
                check(held(e));
                e.count--;
                return;
            }
            locks.entries.remove(key());
            release(held(e));
        } catch (LockLostException | LockNotHeldException lost) {
            locks.entries.remove(key());
            IllegalMonitorStateException told = new IllegalMonitorStateException(lost.getMessage());
            told.initCause(lost);
            throw told;
        }
    }

    @Override
    public boolean isHeldByCurrentThread() {
        return tell() != null;
    }

    @Override
    public int getHoldCount() {
        Entry e = tell();
        return e == null ? 0 : e.count;
    }

    @Override
    public String toString() {
        return getClass().getSimpleName() + " " + getName();
    }
}
