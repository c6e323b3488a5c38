package io.lockd.client.locks;

import java.util.concurrent.TimeUnit;

/** An {@link RLock} whose verbs return the fence, as Redisson's does. Every lock of lockd has one. */
public interface RFencedLock extends RLock {
    /** Locks, and returns the fence. */
    Long lockAndGetToken();

    /** Locks for a fixed time, and returns the fence. */
    Long lockAndGetToken(long lease, TimeUnit unit);

    /** Returns the fence, or null if somebody else holds the lock. */
    Long tryLockAndGetToken();

    /** Waits so long, and returns the fence, or null. */
    Long tryLockAndGetToken(long wait, TimeUnit unit) throws InterruptedException;

    /** The fence of this thread's hold. */
    Long getToken();
}
