package io.lockd.spring;

import io.lockd.client.LockdClient;
import io.lockd.client.locks.RLock;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.LockRegistry;

/**
 * Locks of Spring Integration in lockd. They belong to threads and are reentrant; locks of the same key are the same
 * lock. Without a TTL a lock is renewed until it is unlocked. A key is the name of the lock, after a prefix.
 * <p>
 * A lock that was lost says so when it is unlocked, by {@link IllegalMonitorStateException}:
 * {@link io.lockd.client.locks.LockdLocks} has the details. Nothing is kept of a lock that is not held.
 */
public final class LockdLockRegistry implements LockRegistry<DistributedLock> {
    private final LockdClient client;
    private final String prefix;

    /** The client is not closed. */
    public LockdLockRegistry(LockdClient client, String prefix) {
        this.client = client;
        this.prefix = prefix;
    }

    /** The lock of a key, which is a text or has one that tells it from others. */
    @Override
    public DistributedLock obtain(Object key) {
        return new RegistryLock(client.locks().getLock(prefix + key));
    }

    private record RegistryLock(RLock of) implements DistributedLock {
        @Override
        public void lock() {
            of.lock();
        }

        @Override
        public void lock(Duration ttl) {
            of.lock(ttl.toNanos(), TimeUnit.NANOSECONDS);
        }

        @Override
        public void lockInterruptibly() throws InterruptedException {
            of.lockInterruptibly();
        }

        @Override
        public boolean tryLock() {
            return of.tryLock();
        }

        @Override
        public boolean tryLock(long wait, TimeUnit unit) throws InterruptedException {
            return of.tryLock(wait, unit);
        }

        @Override
        public boolean tryLock(Duration wait, Duration ttl) throws InterruptedException {
            return of.tryLock(wait.toNanos(), ttl.toNanos(), TimeUnit.NANOSECONDS);
        }

        @Override
        public void unlock() {
            of.unlock();
        }

        @Override
        public Condition newCondition() {
            return of.newCondition();
        }
    }
}
