package io.lockd.shedlock;

import io.lockd.client.Leases;
import io.lockd.client.LockNotHeldException;
import io.lockd.client.LockdClient;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;

/**
 * Locks the tasks of ShedLock with leases of lockd. {@code lockAtMostFor} is the lease. A task that ends before
 * {@code lockAtLeastFor} has its lease shortened to what remains of that, also if the lease was longer. The lease is
 * counted by Redis: clocks of the machines that differ do no harm, but for {@code lockAtLeastFor} after an unlock.
 * <p>
 * When the server cannot be reached {@code lock} throws {@link io.lockd.client.LockdException}: the task does not run.
 */
public final class LockdLockProvider implements ExtensibleLockProvider {
    private final Leases leases;
    private final String prefix;

    /** Locks the names of tasks as they are. The client is not closed. */
    public LockdLockProvider(LockdClient client) {
        this(client, "");
    }

    /** Puts a prefix before the names of tasks. */
    public LockdLockProvider(LockdClient client, String prefix) {
        this.leases = client.leases();
        this.prefix = prefix;
    }

    @Override
    public Optional<SimpleLock> lock(LockConfiguration task) {
        return leases.tryAcquire(prefix + task.getName(), task.getLockAtMostFor(), "").map(l -> new LeaseLock(task, l));
    }

    private static final class LeaseLock extends AbstractSimpleLock {
        private final Leases.Lease lease;

        private LeaseLock(LockConfiguration task, Leases.Lease lease) {
            super(task);
            this.lease = lease;
        }

        @Override
        protected void doUnlock() {
            Instant now = ClockProvider.now();
            Duration left = Duration.between(now, lockConfiguration.getLockAtLeastUntil());
            try {
                if (left.isNegative() || left.isZero()) {
                    lease.release();
                } else {
                    lease.extend(left, true);
                }
            } catch (LockNotHeldException e) {
                // the task ran for longer than lockAtMostFor
            }
        }

        @Override
        protected Optional<SimpleLock> doExtend(LockConfiguration longer) {
            try {
                lease.extend(longer.getLockAtMostFor(), true);
                return Optional.of(new LeaseLock(longer, lease));
            } catch (LockNotHeldException e) {
                return Optional.empty();
            }
        }
    }
}
