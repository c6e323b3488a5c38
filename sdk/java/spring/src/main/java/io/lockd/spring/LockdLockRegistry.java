package io.lockd.spring;

import io.lockd.client.LockLostException;
import io.lockd.client.LockdClient;
import io.lockd.client.locks.RLock;
import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.ExpirableLockRegistry;
import org.springframework.integration.support.locks.RenewableLockRegistry;

/**
 * Locks of Spring Integration in lockd. They belong to threads and are reentrant; locks of the same key are the same
 * lock. A key is the name of the lock, after a prefix.
 * <p>
 * A lock without a TTL is renewed until it is unlocked, as long as the program lives. One with a TTL ends by itself; to
 * lock it again may make that later, never earlier.
 * <p>
 * {@code unlock} throws {@link IllegalMonitorStateException} if the thread does not hold the lock, and, as other
 * registries do, {@link ConcurrentModificationException} if the lock was lost meanwhile: what was done under it may
 * have met others. Its cause says why. Until that unlock the thread's attempts to lock again fail with
 * {@link LockLostException}. Other failures are {@link io.lockd.client.LockdException}s: {@code lock} waits until lockd
 * can be reached, {@code tryLock} with a time returns false after it, {@code tryLock} without one throws.
 * {@link io.lockd.client.locks.LockdLocks} has the details.
 */
public final class LockdLockRegistry
    implements ExpirableLockRegistry<DistributedLock>, RenewableLockRegistry<DistributedLock> {
    private final LockdClient client;
    private final String prefix;

    /** The client is not closed. */
    public LockdLockRegistry(LockdClient client, String prefix) {
        this.client = client;
        this.prefix = prefix;
    }

    /** The lock of a key: a text, or an object whose text is the same in all programs that are to share the lock. */
    @Override
    public DistributedLock obtain(Object key) {
        return new KeyLock(client, name(key));
    }

    private String name(Object key) {
        return prefix + Objects.requireNonNull(key, "a lock needs a key");
    }

    /** Does nothing: there is nothing to expire, as nothing is kept of a lock that is not held. */
    @Override
    public void expireUnusedOlderThan(long age) { }

    /**
     * Gives a lock of this thread what one without a TTL has: it is renewed until it is unlocked. No scheduler is
     * needed.
     *
     * @throws IllegalMonitorStateException if this thread does not hold it, or not any more
     */
    @Override
    public void renewLock(Object key) {
        held(key).lock();
        held(key).unlock();
    }

    /**
     * Has a lock of this thread, that has a TTL, end so long from now, unless it ends later anyway. Doing it twice is
     * fine.
     *
     * @throws IllegalMonitorStateException if this thread does not hold it, or not any more
     */
    @Override
    public void renewLock(Object key, Duration ttl) {
        held(key).lock(nanos(ttl), TimeUnit.NANOSECONDS);
        held(key).unlock();
    }

    private RLock held(Object key) {
        RLock lock = client.locks().getLock(name(key));
        if (!lock.isHeldByCurrentThread()) {
            throw new IllegalMonitorStateException("this thread does not hold " + name(key));
        }
        return lock;
    }

    private static long nanos(Duration ttl) {
        if (ttl.isNegative() || ttl.isZero()) {
            throw new IllegalArgumentException("a TTL of " + ttl);
        }
        return TimeUnit.NANOSECONDS.convert(ttl);
    }

    private record KeyLock(LockdClient client, String name) implements DistributedLock {
        private RLock of() {
            return client.locks().getLock(name);
        }

        @Override
        public void lock() {
            of().lock();
        }

        @Override
        public void lock(Duration ttl) {
            of().lock(nanos(ttl), TimeUnit.NANOSECONDS);
        }

        @Override
        public void lockInterruptibly() throws InterruptedException {
            of().lockInterruptibly();
        }

        @Override
        public boolean tryLock() {
            return of().tryLock();
        }

        @Override
        public boolean tryLock(long wait, TimeUnit unit) throws InterruptedException {
            return of().tryLock(wait, unit);
        }

        @Override
        public boolean tryLock(Duration wait, Duration ttl) throws InterruptedException {
            return of().tryLock(TimeUnit.NANOSECONDS.convert(wait), nanos(ttl), TimeUnit.NANOSECONDS);
        }

        @Override
        public void unlock() {
            try {
                of().unlock();
            } catch (IllegalMonitorStateException e) {
                if (e.getCause() == null) {
                    throw e;
                }
                throw new ConcurrentModificationException(e.getMessage(), e.getCause());
            }
        }

        @Override
        public Condition newCondition() {
            return of().newCondition();
        }

        @Override
        public String toString() {
            return "lock " + name;
        }
    }
}
