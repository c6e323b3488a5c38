package io.lockd.shedlock;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockd.client.LockdClient;
import io.lockd.client.LockdException;
import io.lockd.client.testing.LockdForTests;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What ShedLock documents of a provider that can extend. */
class LockdLockProviderTest {
    private static final Duration LONG = Duration.ofMinutes(5);

    private LockdForTests lockd;
    private LockdClient client;
    private LockdLockProvider provider;

    @BeforeEach
    void start() {
        lockd = LockdForTests.start(Path.of(System.getenv().getOrDefault("LOCKD_BIN", "lockd")));
        client = LockdClient.builder(lockd.address()).answerTimeout(Duration.ofSeconds(30)).build();
        provider = new LockdLockProvider(client, "tasks/");
    }

    @AfterEach
    void end() {
        client.close();
        lockd.close();
    }

    private Optional<SimpleLock> lock(String name, Duration most, Duration least) {
        return provider.lock(new LockConfiguration(Instant.now(), name, most, least));
    }

    @Test
    void oneAtATime() {
        SimpleLock first = lock("a", LONG, Duration.ZERO).orElseThrow();
        assertFalse(lock("a", LONG, Duration.ZERO).isPresent());
        assertTrue(lock("b", LONG, Duration.ZERO).isPresent());
        first.unlock();
        assertThrows(IllegalStateException.class, first::unlock); // as ShedLock has it
        assertTrue(lock("a", LONG, Duration.ZERO).isPresent());
    }

    @Test
    void staysLockedForLockAtLeast() throws Exception {
        lock("least", LONG, Duration.ofSeconds(2)).orElseThrow().unlock();
        assertTrue(client.look("tasks/least").ttl().compareTo(Duration.ofSeconds(2)) <= 0);
        assertFalse(lock("least", LONG, Duration.ZERO).isPresent());
        awaits("least");
    }

    @Test
    void endsAfterLockAtMost() throws Exception {
        SimpleLock late = lock("most", Duration.ofSeconds(1), Duration.ZERO).orElseThrow();
        SimpleLock next = awaits("most");
        assertFalse(late.extend(LONG, Duration.ZERO).isPresent());
        assertTrue(client.look("tasks/most").held());
        next.unlock();
    }

    @Test
    void anUnlockThatIsTooLateDoesNoHarm() throws Exception {
        SimpleLock late = lock("late", Duration.ofSeconds(1), Duration.ZERO).orElseThrow();
        awaits("late");
        late.unlock();
        assertTrue(client.look("tasks/late").held());
    }

    @Test
    void isExtended() {
        SimpleLock lock = lock("longer", Duration.ofSeconds(30), Duration.ZERO).orElseThrow();
        SimpleLock longer = lock.extend(LONG, Duration.ZERO).orElseThrow();
        assertThrows(IllegalStateException.class, lock::unlock); // it is the other one's
        assertTrue(client.look("tasks/longer").ttl().compareTo(Duration.ofMinutes(4)) > 0);
        longer.unlock();
        assertFalse(client.look("tasks/longer").held());
    }

    @Test
    void aServerThatIsGoneIsAnError() {
        lockd.close();
        assertThrows(LockdException.class, () -> lock("gone", LONG, Duration.ZERO));
    }

    private SimpleLock awaits(String name) throws Exception {
        for (long end = System.nanoTime() + Duration.ofMinutes(1)
            .toNanos(); System.nanoTime() < end; Thread.sleep(20)) {
            Optional<SimpleLock> got = lock(name, LONG, Duration.ZERO);
            if (got.isPresent()) {
                return got.get();
            }
        }
        throw new AssertionError("never free: " + name);
    }
}
