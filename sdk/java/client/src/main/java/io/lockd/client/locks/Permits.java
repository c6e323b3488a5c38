package io.lockd.client.locks;

import io.lockd.client.Held;
import io.lockd.client.LockHeldException;
import io.lockd.client.LockInfo;
import io.lockd.client.LockLostException;
import io.lockd.client.LockNotHeldException;
import io.lockd.client.LockRequest;
import io.lockd.client.LockTimeoutException;
import io.lockd.client.LockdException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** A semaphore with ids of permits. */
final class Permits implements RPermitExpirableSemaphore {
    private interface Acquiring {
        Held from(LockRequest request) throws InterruptedException;
    }

    private final LockdLocks locks;
    private final String name;

    Permits(LockdLocks locks, String name) {
        this.locks = locks;
        this.name = name;
    }

    @Override
    public String getName() {
        return name;
    }

    private LockRequest request(int limit, long lease, TimeUnit unit) {
        LockRequest r = locks.client.lock(name).semaphore(1, limit);
        return lease > 0 ? r.lease(Duration.ofNanos(unit.toNanos(lease))) : r;
    }

    /** Asks with whatever limit there is, or with ours if the server has forgotten it: nobody used it for long. */
    private String acquire(long lease, TimeUnit unit, Acquiring how) throws InterruptedException {
        Held held;
        try {
            held = how.from(request(0, lease, unit));
        } catch (LockdException e) {
            Integer limit = locks.limits.get(name);
            if (limit == null || !e.reason().equals("LOCK_CONFIG_MISMATCH")) {
                throw e;
            }
            held = how.from(request(limit, lease, unit));
        }
        String id = Long.toString(held.fence(), Character.MAX_RADIX);
        locks.permits.put(key(id), held);
        held.onLost(lost -> locks.permits.remove(key(id)));
        return id;
    }

    private String key(String id) {
        return id + "@" + name;
    }

    @Override
    public String acquire() throws InterruptedException {
        return acquire(-1, TimeUnit.SECONDS);
    }

    @Override
    public String acquire(long lease, TimeUnit unit) throws InterruptedException {
        return acquire(lease, unit, LockRequest::acquire);
    }

    @Override
    public String tryAcquire() {
        try {
            return acquire(-1, TimeUnit.SECONDS, r -> r.waitUpTo(Duration.ZERO).acquireUninterruptibly());
        } catch (LockHeldException e) {
            return null;
        } catch (InterruptedException e) {
            throw new IllegalStateException(e); // nothing above is interrupted
        }
    }

    @Override
    public String tryAcquire(long wait, TimeUnit unit) throws InterruptedException {
        return tryAcquire(wait, -1, unit);
    }

    @Override
    public String tryAcquire(long wait, long lease, TimeUnit unit) throws InterruptedException {
        try {
            Duration bound = Duration.ofNanos(Math.max(unit.toNanos(wait), 0));
            return acquire(lease, unit, r -> r.waitUpTo(bound).acquire());
        } catch (LockHeldException | LockTimeoutException e) {
            return null;
        }
    }

    @Override
    public void release(String permitId) {
        if (!tryRelease(permitId)) {
            throw new IllegalArgumentException("this client does not have the permit " + permitId);
        }
    }

    @Override
    public boolean tryRelease(String permitId) {
        Held held = locks.permits.remove(key(permitId));
        if (held == null) {
            return false;
        }
        try {
            held.unlock();
            return true;
        } catch (LockLostException | LockNotHeldException e) {
            return false;
        }
    }

    @Override
    public boolean updateLeaseTime(String permitId, long lease, TimeUnit unit) {
        Held held = locks.permits.get(key(permitId));
        if (held == null) {
            return false;
        }
        try {
            held.shorten(Duration.ofNanos(unit.toNanos(lease)));
            return true;
        } catch (LockLostException | LockNotHeldException e) {
            return false;
        }
    }

    @Override
    public int availablePermits() {
        LockInfo i = locks.client.look(name);
        return Math.max(i.limit() - i.holders(), 0);
    }

    @Override
    public int getPermits() {
        return locks.client.look(name).limit();
    }

    @Override
    public boolean trySetPermits(int permits) {
        locks.limits.putIfAbsent(name, permits);
        return getPermits() == 0 && locks.client.setLimit(name, permits) == 0;
    }

    @Override
    public void setPermits(int permits) {
        locks.limits.put(name, permits);
        locks.client.setLimit(name, permits);
    }
}
