package io.lockd.client.locks;

import io.lockd.client.Held;
import io.lockd.client.LockKind;
import io.lockd.client.LockdClient;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;

/**
 * Locks that belong to threads, as those of java.util.concurrent and of Redisson do: a class that moves from Redisson
 * changes its imports. Objects of the same name are the same lock.
 * <p>
 * What cannot be as in one process: a lock can be lost. From then on {@code isHeldByCurrentThread} is false and
 * {@code getHoldCount} is 0; a nested lock throws {@link io.lockd.client.LockLostException}, unless the thread was told
 * by one of these: then it asks for the lock anew; {@code unlock} throws {@link IllegalMonitorStateException} with that
 * as its cause, once for all holds of the thread. A handle
 * ({@link LockdClient#lock}) tells the loss at once. A thread that ends without unlock keeps the lock until the client
 * is closed. {@code tryLock} does not go before those who wait. Other failures are
 * {@link io.lockd.client.LockdException}s, as of handles.
 */
public final class LockdLocks {
    /** What a thread has of a lock. */
    record Key(Object lock, Thread thread) { }

    final LockdClient client;
    final Map<Key, ThreadOwned.Entry> entries = new ConcurrentHashMap<>();
    final Map<String, Held> permits = new ConcurrentHashMap<>();
    /** How many permits there are, as this client said. */
    final Map<String, Integer> limits = new ConcurrentHashMap<>();

    /** Is for {@link LockdClient#locks}. */
    public LockdLocks(LockdClient client) {
        this.client = client;
    }

    /** A lock. It is also a {@link java.util.concurrent.locks.Lock}. */
    public RLock getLock(String name) {
        return new ThreadLock(this, name, LockKind.EXCLUSIVE);
    }

    /** A lock whose verbs return the fence. It is the same as that of {@link #getLock}. */
    public RFencedLock getFencedLock(String name) {
        return new ThreadLock(this, name, LockKind.EXCLUSIVE);
    }

    /** A lock that is granted in strict order of arrival, over all programs. */
    public RLock getFairLock(String name) {
        return new ThreadLock(this, name, LockKind.FAIR);
    }

    /** A lock for reading and one for writing. It is also a {@link java.util.concurrent.locks.ReadWriteLock}. */
    public RReadWriteLock getReadWriteLock(String name) {
        RLock read = new ThreadLock(this, name, LockKind.READ);
        RLock write = new ThreadLock(this, name, LockKind.WRITE);
        return new RReadWriteLock() {
            @Override
            public RLock readLock() {
                return read;
            }

            @Override
            public RLock writeLock() {
                return write;
            }
        };
    }

    /**
     * Several locks of this client as one: all or none. A thread that holds one of them by itself is refused with the
     * reason
     * {@code ALREADY_HELD}. It has no fence of its own.
     */
    public RLock getMultiLock(RLock... locks) {
        List<ThreadLock> all = Arrays.stream(locks).map(ThreadLock.class::cast).collect(Collectors.toList());
        return new ThreadMultiLock(this, all);
    }

    /** A semaphore. */
    public RPermitExpirableSemaphore getPermitExpirableSemaphore(String name) {
        return new Permits(this, name);
    }
}
