package io.lockd.client.locks;

import io.lockd.client.Held;
import io.lockd.client.HeldAll;
import io.lockd.client.Request;
import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;

/** Several locks as one. */
final class ThreadMultiLock extends ThreadOwned<HeldAll> {
    private final List<ThreadLock> all;

    ThreadMultiLock(LockdLocks locks, List<ThreadLock> all) {
        super(locks, all.stream().map(l -> l.item).collect(Collectors.toList()));
        this.all = all;
    }

    @Override
    public String getName() {
        return all.stream().map(ThreadLock::getName).collect(Collectors.joining(", "));
    }

    @Override
    Request<?, HeldAll> request() {
        return locks.client.lockAll(all.stream().map(l -> l.item).collect(Collectors.toList()));
    }

    @Override
    void check(HeldAll held) {
        held.check();
    }

    @Override
    void prolong(HeldAll held, Duration lease) {
        held.all().forEach(h -> h.extend(lease));
    }

    @Override
    void renew(HeldAll held) {
        held.all().forEach(Held::makeAuto);
    }

    @Override
    void release(HeldAll held) {
        held.unlock();
    }

    @Override
    public boolean forceUnlock() {
        boolean any = false;
        for (ThreadLock l : all) {
            any |= l.forceUnlock();
        }
        return any;
    }

    /** Whether all are locked, by whomever. */
    @Override
    public boolean isLocked() {
        return all.stream().allMatch(ThreadLock::isLocked);
    }

    @Override
    public long remainTimeToLive() {
        return all.stream().mapToLong(ThreadLock::remainTimeToLive).min().orElse(-2);
    }

    @Override
    public long getFence() {
        throw new UnsupportedOperationException("each of the locks has a fence of its own: use lockAll of the client");
    }
}
