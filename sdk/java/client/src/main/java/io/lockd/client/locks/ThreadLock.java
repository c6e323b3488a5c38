package io.lockd.client.locks;

import io.lockd.client.Held;
import io.lockd.client.LockInfo;
import io.lockd.client.LockItem;
import io.lockd.client.LockKind;
import io.lockd.client.Request;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A lock of one name. */
final class ThreadLock extends ThreadOwned<Held> implements RFencedLock {
    final LockItem item;

    ThreadLock(LockdLocks locks, String name, LockKind kind) {
        super(locks, List.of(name, kind));
        item = LockItem.of(name, kind);
    }

    @Override
    public String getName() {
        return item.name();
    }

    @Override
    Request<?, Held> request() {
        return locks.client.lock(item.name()).kind(item.kind());
    }

    @Override
    void check(Held held) {
        held.check();
    }

    @Override
    void prolong(Held held, Duration lease) {
        held.extend(lease);
    }

    @Override
    void renew(Held held) {
        held.makeAuto();
    }

    @Override
    void release(Held held) {
        held.unlock();
    }

    @Override
    public boolean forceUnlock() {
        return locks.client.forceUnlock(item.name(), item.kind(), "forceUnlock of a program");
    }

    @Override
    public boolean isLocked() {
        LockInfo i = locks.client.look(item.name());
        boolean halves = item.kind() == LockKind.READ || item.kind() == LockKind.WRITE;
        return i.held() && (!halves || i.kind() == item.kind());
    }

    @Override
    public long remainTimeToLive() {
        LockInfo i = locks.client.look(item.name());
        return i.held() ? i.ttl().toMillis() : -2;
    }

    @Override
    public long getFence() {
        Held held = mine();
        if (held == null) {
            throw new IllegalMonitorStateException("this thread does not hold " + getName());
        }
        return held.fence();
    }

    @Override
    public Long getToken() {
        return getFence();
    }

    @Override
    public Long lockAndGetToken() {
        lock();
        return getFence();
    }

    @Override
    public Long lockAndGetToken(long lease, TimeUnit unit) {
        lock(lease, unit);
        return getFence();
    }

    @Override
    public Long tryLockAndGetToken() {
        return tryLock() ? (Long) getFence() : null;
    }

    @Override
    public Long tryLockAndGetToken(long wait, TimeUnit unit) throws InterruptedException {
        return tryLock(wait, unit) ? (Long) getFence() : null;
    }
}
