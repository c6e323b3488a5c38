package io.lockd.client.locks;

import java.util.concurrent.TimeUnit;

/**
 * A semaphore whose permits have ids and leases, with the verbs of Redisson's. Permits belong to no thread. An id is
 * known to the client that acquired it, and to no other. Without a lease a permit is renewed while this client lives.
 */
public interface RPermitExpirableSemaphore {
    /** The name. */
    String getName();

    /** Waits for a permit, and returns its id. */
    String acquire() throws InterruptedException;

    /** The same with a fixed lease. */
    String acquire(long lease, TimeUnit unit) throws InterruptedException;

    /** Returns the id of a permit, or null if none is free. */
    String tryAcquire();

    /** Waits so long for a permit. null: there was none. */
    String tryAcquire(long wait, TimeUnit unit) throws InterruptedException;

    /** The same with a fixed lease; -1 is none. */
    String tryAcquire(long wait, long lease, TimeUnit unit) throws InterruptedException;

    /** Releases a permit. IllegalArgumentException if this client does not have it, or not any more. */
    void release(String permitId);

    /** Releases a permit, and says whether this client had it. */
    boolean tryRelease(String permitId);

    /** Makes the lease of a permit fixed, to end so long from now. It says whether this client has the permit. */
    boolean updateLeaseTime(String permitId, long lease, TimeUnit unit);

    /** How many permits are free. The server is asked. */
    int availablePermits();

    /** How many permits there are, 0 if nobody has said so. The server is asked. */
    int getPermits();

    /** Says how many permits there are, unless that was said before. */
    boolean trySetPermits(int permits);

    /** Says how many permits there are. */
    void setPermits(int permits);
}
