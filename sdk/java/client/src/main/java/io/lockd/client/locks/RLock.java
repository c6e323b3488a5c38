package io.lockd.client.locks;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;

/**
 * A lock that belongs to a thread and is reentrant, with the verbs of Redisson's lock of the same name. {@link
 * LockdLocks} says how a loss is told.
 */
public interface RLock extends Lock {
    /** The name that is locked. */
    String getName();

    /** Locks for a fixed time; -1 is until unlock. The thread's interruption is kept for later. */
    void lock(long lease, TimeUnit unit);

    /** The same, but an interruption ends the wait. */
    void lockInterruptibly(long lease, TimeUnit unit) throws InterruptedException;

    /** Waits so long for the lock, and locks it for a fixed time; -1 is until unlock. */
    boolean tryLock(long wait, long lease, TimeUnit unit) throws InterruptedException;

    /**
     * Frees the name whoever holds it, and says whether somebody did.
     *
     * @throws IllegalStateException if the client has no {@code adminAddress}
     */
    boolean forceUnlock();

    /** Whether anybody holds it. The server is asked. */
    boolean isLocked();

    /** Whether this thread still holds it. The server is not asked. */
    boolean isHeldByCurrentThread();

    /** How often this thread holds it, 0 if it does not, or lost it. The server is not asked. */
    int getHoldCount();

    /** The time left of the lease in ms, whoever has it; -2 if nobody holds it. The server is asked. */
    long remainTimeToLive();

    /** The fence of this thread's hold: give it to the resource. IllegalMonitorStateException if there is none. */
    long getFence();

    /** Not supported: what waits for a condition of another process would have to be told by it. */
    @Override
    default Condition newCondition() {
        throw new UnsupportedOperationException("a lock of other processes has no conditions");
    }
}
