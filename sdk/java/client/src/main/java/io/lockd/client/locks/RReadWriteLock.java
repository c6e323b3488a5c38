package io.lockd.client.locks;

import java.util.concurrent.locks.ReadWriteLock;

/**
 * Two locks of one name: many threads may read, or one writes. A thread that writes may read as well, and then unlock
 * the write lock. One that reads and asks for the write lock is refused with the reason {@code LOCK_UPGRADE}: it would
 * wait for itself for ever.
 */
public interface RReadWriteLock extends ReadWriteLock {
    @Override
    RLock readLock();

    @Override
    RLock writeLock();
}
