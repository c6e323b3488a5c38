package io.lockd.shedlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockd.client.LockdClient;
import io.lockd.client.LockdException;
import io.lockd.client.OutcomeUnknownException;
import io.lockd.client.testing.LockdForTests;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.LockingTaskExecutor;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.KeepAliveLockProvider;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** What ShedLock documents of a provider that can extend. */
class LockdLockProviderTest {
    private static final Duration LONG = Duration.ofMinutes(5);
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private static LockdForTests lockd;
    private static LockdClient client;
    private static LockdLockProvider provider;

    private static LockdForTests aLockd() {
        return LockdForTests.start(Path.of(System.getenv().getOrDefault("LOCKD_BIN", "lockd")));
    }

    @BeforeAll
    static void start() {
        lockd = aLockd();
        client = LockdClient.builder(lockd.address()).answerTimeout(PATIENCE).build();
        provider = new LockdLockProvider(client, "tasks/");
    }

    @AfterAll
    static void end() {
        client.close();
        lockd.close();
    }

    private static LockConfiguration task(String name, Duration most, Duration least) {
        return new LockConfiguration(ClockProvider.now(), name, most, least);
    }

    private Optional<SimpleLock> lock(String name, Duration most, Duration least) {
        return provider.lock(task(name, most, least));
    }

    private boolean isLocked(String name) {
        return client.look("tasks/" + name).held();
    }

    /** Locks a task once it is free. */
    private SimpleLock awaits(String name) throws Exception {
        return awaits(name, LONG);
    }

    /** Does so for a time that may be over before the answer is there: then what came of it is unknown. */
    private SimpleLock awaits(String name, Duration most) throws Exception {
        for (long end = System.nanoTime() + LONG.toNanos() / 5; System.nanoTime() < end; Thread.sleep(20)) {
            try {
                Optional<SimpleLock> got = lock(name, most, Duration.ZERO);
                if (got.isPresent()) {
                    return got.get();
                }
            } catch (OutcomeUnknownException e) {
                assertTrue(most.compareTo(LONG) < 0, e::toString);
            }
        }
        throw new AssertionError("never free: " + name);
    }

    @Test
    void oneAtATime() {
        SimpleLock first = lock("a", LONG, Duration.ZERO).orElseThrow();
        assertFalse(lock("a", LONG, Duration.ZERO).isPresent());
        assertTrue(lock("b", LONG, Duration.ZERO).isPresent());
        first.unlock();
        assertFalse(isLocked("a"));
        assertThrows(IllegalStateException.class, first::unlock); // as ShedLock has it
        for (int i = 0; i < 10; i++) {
            SimpleLock next = lock("a", LONG, Duration.ZERO).orElseThrow();
            assertFalse(lock("a", LONG, Duration.ZERO).isPresent());
            next.unlock();
        }
    }

    /** Of two programs, each with several threads, one at a time is inside. */
    @Test
    void providersExcludeEachOther() throws Exception {
        try (LockdClient other = LockdClient.builder(lockd.address()).answerTimeout(PATIENCE).build()) {
            LockProvider[] providers = {provider, new LockdLockProvider(other, "tasks/")};
            AtomicInteger inside = new AtomicInteger();
            AtomicInteger met = new AtomicInteger();
            AtomicInteger ran = new AtomicInteger();
            ExecutorService threads = Executors.newFixedThreadPool(6);
            for (int i = 0; i < 6; i++) {
                LockProvider mine = providers[i % 2];
                threads.execute(() -> {
                    for (int rounds = 0; rounds < 50; rounds++) {
                        mine.lock(task("shared", LONG, Duration.ZERO)).ifPresent(lock -> {
                            met.addAndGet(inside.getAndIncrement());
                            ran.incrementAndGet();
                            inside.decrementAndGet();
                            lock.unlock();
                        });
                    }
                });
            }
            threads.shutdown();
            assertTrue(threads.awaitTermination(1, TimeUnit.MINUTES));
            assertEquals(0, met.get());
            assertTrue(ran.get() > 0);
            assertFalse(isLocked("shared"));
        }
    }

    @Test
    void staysLockedForLockAtLeast() throws Exception {
        lock("least", LONG, Duration.ofMinutes(1)).orElseThrow().unlock();
        assertTrue(client.look("tasks/least").ttl().compareTo(Duration.ofMinutes(1)) <= 0);
        assertFalse(lock("least", LONG, Duration.ZERO).isPresent());
        lock("rest", LONG, Duration.ofMillis(90)).orElseThrow().unlock(); // less than lockd takes as a lease
        awaits("rest");
    }

    @Test
    void endsAfterLockAtMost() throws Exception {
        SimpleLock late = awaits("most", Duration.ofMillis(200));
        SimpleLock next = awaits("most");
        assertFalse(late.extend(LONG, Duration.ZERO).isPresent());
        assertTrue(isLocked("most"));
        next.unlock();
    }

    @Test
    void anUnlockThatIsTooLateDoesNoHarm() throws Exception {
        SimpleLock late = awaits("late", Duration.ofMillis(200));
        awaits("late");
        late.unlock();
        assertTrue(isLocked("late"));
    }

    @Test
    void isExtended() {
        SimpleLock lock = lock("longer", Duration.ofSeconds(30), Duration.ZERO).orElseThrow();
        SimpleLock longer = lock.extend(LONG, Duration.ZERO).orElseThrow();
        assertThrows(IllegalStateException.class, lock::unlock); // it is the other one's
        assertThrows(IllegalStateException.class, () -> lock.extend(LONG, Duration.ZERO));
        assertTrue(client.look("tasks/longer").ttl().compareTo(Duration.ofMinutes(4)) > 0);
        SimpleLock least = longer.extend(LONG, Duration.ofMinutes(1)).orElseThrow();
        least.unlock();
        assertTrue(isLocked("longer"));
        assertThrows(IllegalStateException.class, () -> least.extend(LONG, Duration.ZERO));
    }

    /** ShedLock's own keeper extends the lock of a task for as long as that runs. */
    @Test
    void isKeptAlive() throws Exception {
        ScheduledExecutorService soon = new ScheduledThreadPoolExecutor(1) {
            @Override
            public ScheduledFuture<?> scheduleAtFixedRate(Runnable task, long first, long period, TimeUnit unit) {
                return super.scheduleAtFixedRate(task, 50, 50, TimeUnit.MILLISECONDS);
            }
        };
        try {
            Duration most = Duration.ofSeconds(30); // the least that the keeper takes
            long began = System.nanoTime();
            SimpleLock kept = new KeepAliveLockProvider(provider, soon).lock(task("kept", most, Duration.ZERO))
                .orElseThrow();
            boolean extended = false;
            for (long ran = 0; !extended && ran < LONG.toNanos() / 5; ran = System.nanoTime() - began) {
                extended = ran > 3_000_000_000L && client.look("tasks/kept").ttl().getSeconds() >= 28;
                Thread.sleep(20);
            }
            assertTrue(extended);
            kept.unlock();
            assertFalse(isLocked("kept"));
        } finally {
            soon.shutdownNow();
        }
    }

    @Test
    void withoutLockdTasksDoNotRun() throws Throwable {
        LockdForTests mortal = aLockd();
        try (LockdClient its = LockdClient.builder(mortal.address()).answerTimeout(PATIENCE).build()) {
            LockProvider there = new LockdLockProvider(its);
            SimpleLock held = there.lock(task("held", LONG, Duration.ZERO)).orElseThrow();
            AtomicInteger ran = new AtomicInteger();
            LockingTaskExecutor executor = new DefaultLockingTaskExecutor(there);
            executor.executeWithLock((Runnable) ran::incrementAndGet, task("runs", LONG, Duration.ZERO));
            mortal.close();
            assertThrows(LockdException.class, () ->
                executor.executeWithLock((Runnable) ran::incrementAndGet, task("runs", LONG, Duration.ZERO)));
            assertEquals(1, ran.get());
            assertThrows(LockdException.class, () -> held.extend(LONG, Duration.ZERO));
            held.unlock(); // it is still the valid one, and its failure is not that of the task
        } finally {
            mortal.close();
        }
    }

    private static void connect(LockProvider there) {
        for (int tries = 0; tries < 60; tries++) {
            try {
                there.lock(task("connects", LONG, Duration.ZERO));
                return;
            } catch (LockdException e) {
                // the machine is slow
            }
        }
    }

    /** A lease that was taken, but not told, is released. */
    @Test
    void aLostAnswerLeavesNoLock() throws Exception {
        try (Proxy proxy = new Proxy(lockd.address());
             LockdClient cut = LockdClient.builder(proxy.address()).answerTimeout(Duration.ofMillis(300)).build()) {
            LockdLockProvider there = new LockdLockProvider(cut, "tasks/");
            connect(there);
            proxy.dropAnswers();
            assertThrows(OutcomeUnknownException.class, () -> there.lock(task("lost", LONG, Duration.ZERO)));
            awaits("lost");
        }
    }
}
