package io.lockd.shedlock;

import io.lockd.client.Leases;
import io.lockd.client.LockNotHeldException;
import io.lockd.client.LockdClient;
import io.lockd.client.LockdException;
import java.time.Duration;
import java.util.Optional;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Locks the tasks of ShedLock with leases of lockd, which outlive the program. {@code lockAtMostFor} is the lease, so
 * it has the bounds of one: 100 ms and 24 h unless lockd is configured otherwise. A task that ends before
 * {@code lockAtLeastFor} has its lease shortened to what remains of that, and to 100 ms at least. Redis counts the
 * lease, so clocks that differ do no harm.
 * <p>
 * When lockd cannot be reached {@code lock} and {@code extend} throw {@link LockdException} within the client's answer
 * timeout: the task does not run. It is the same when no answer came, and then a lease that was taken is released
 * once lockd can be reached, if that is within a minute. {@code unlock} throws nothing: a lock that could not be
 * released is free after {@code lockAtMostFor}, and a task that ran for longer than that may have met another one. Both
 * are logged as warnings.
 */
public final class LockdLockProvider implements ExtensibleLockProvider {
    private static final Logger LOG = LoggerFactory.getLogger(LockdLockProvider.class);
    /** The shortest lease that lockd takes, as it is configured by default. */
    private static final Duration SHORTEST = Duration.ofMillis(100);

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

    /** Tries once. Empty: another one runs the task, or ran it less than {@code lockAtLeastFor} ago. */
    @Override
    public Optional<SimpleLock> lock(LockConfiguration task) {
        return leases.tryAcquire(prefix + task.getName(), task.getLockAtMostFor(), "")
            .map(lease -> new LeaseLock(task, lease));
    }

    private static final class LeaseLock extends AbstractSimpleLock {
        private final Leases.Lease lease;

        private LeaseLock(LockConfiguration task, Leases.Lease lease) {
            super(task);
            this.lease = lease;
        }

        @Override
        protected void doUnlock() {
            Duration left = Duration.between(ClockProvider.now(), lockConfiguration.getLockAtLeastUntil());
            try {
                if (left.toMillis() <= 0) { // ShedLock counts in whole milliseconds
                    lease.release();
                } else {
                    lease.extend(left.compareTo(SHORTEST) < 0 ? SHORTEST : left, true);
                }
            } catch (LockNotHeldException e) {
                LOG.warn("{} ran for longer than lockAtMostFor ({}): another one may have run meanwhile",
                    lockConfiguration.getName(), lockConfiguration.getLockAtMostFor());
            } catch (LockdException e) {
                LOG.warn("{} stays locked until its lockAtMostFor ({}) has passed", lockConfiguration.getName(),
                    lockConfiguration.getLockAtMostFor(), e);
            }
        }

        /** Empty: the lease had ended. When it throws, this lock is still the valid one. */
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
