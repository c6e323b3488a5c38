package io.lockd.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockd.client.LockKind;
import io.lockd.client.LockLostException;
import io.lockd.client.LockdClient;
import io.lockd.client.testing.LockdForTests;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.support.leader.LockRegistryLeaderInitiator;
import org.springframework.integration.support.locks.DistributedLock;

/** What Spring Integration documents of its lock registries, of two programs. */
class LockdLockRegistryTest {
    private static final Duration LONG = Duration.ofMinutes(5);

    private static LockdForTests lockd;
    private static LockdClient client;
    private static LockdClient other;
    private static LockdLockRegistry registry;
    private static LockdLockRegistry otherRegistry;

    @BeforeAll
    static void start() {
        lockd = LockdForTests.start(Path.of(System.getenv().getOrDefault("LOCKD_BIN", "lockd")));
        Duration patience = Duration.ofSeconds(30);
        client = LockdClient.builder(lockd.address()).adminAddress(lockd.adminAddress()).answerTimeout(patience)
            .build();
        other = LockdClient.builder(lockd.address()).answerTimeout(patience).build();
        registry = new LockdLockRegistry(client, "spring/");
        otherRegistry = new LockdLockRegistry(other, "spring/");
    }

    @AfterAll
    static void end() {
        client.close();
        other.close();
        lockd.close();
    }

    /** A thread that does something. */
    private static <T> FutureTask<T> begin(Callable<T> task) {
        FutureTask<T> f = new FutureTask<>(task);
        new Thread(f).start();
        return f;
    }

    private static <T> T elsewhere(Callable<T> task) throws Exception {
        return begin(task).get(1, TimeUnit.MINUTES);
    }

    static void until(BooleanSupplier state) throws InterruptedException {
        for (long end = System.nanoTime() + LONG.toNanos() / 5; !state.getAsBoolean(); Thread.sleep(5)) {
            assertTrue(System.nanoTime() < end, "it never became so");
        }
    }

    @Test
    void programsExcludeEachOther() throws Exception {
        DistributedLock lock = registry.obtain("a");
        DistributedLock theirs = otherRegistry.obtain("a");
        lock.lock();
        assertFalse(theirs.tryLock());
        assertFalse(theirs.tryLock(10, TimeUnit.MILLISECONDS));
        assertTrue(otherRegistry.obtain("b").tryLock());
        FutureTask<Boolean> waits = begin(() -> {
            theirs.lockInterruptibly();
            theirs.unlock();
            return true;
        });
        until(() -> client.look("spring/a").waiters() == 1);
        assertFalse(waits.isDone());
        lock.unlock();
        assertTrue(waits.get(1, TimeUnit.MINUTES).booleanValue());
    }

    @Test
    void aThreadMayLockAgain() throws Exception {
        DistributedLock lock = registry.obtain("again");
        assertEquals(lock, registry.obtain("again"));
        assertNotEquals(lock, otherRegistry.obtain("again"));
        lock.lock();
        registry.obtain("again").lock();
        assertTrue(lock.tryLock(1, TimeUnit.MINUTES));
        lock.unlock();
        lock.unlock();
        assertFalse(elsewhere(() -> registry.obtain("again").tryLock()).booleanValue());
        lock.unlock();
        assertFalse(client.look("spring/again").held());
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
    }

    /** What java.util.concurrent.locks says of a Lock, whose contract Spring refers to. */
    @Test
    void aLockIsOneOfJavaUtilConcurrent() throws Exception {
        DistributedLock lock = registry.obtain("contract");
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
        assertThrows(NullPointerException.class, () -> registry.obtain(null));
        assertThrows(IllegalArgumentException.class, () -> lock.lock(Duration.ZERO));
        lock.lock();
        FutureTask<Boolean> waits = begin(() -> {
            boolean got = otherRegistry.obtain("contract").tryLock(Long.MAX_VALUE, TimeUnit.SECONDS);
            otherRegistry.obtain("contract").unlock();
            return got;
        });
        until(() -> client.look("spring/contract").waiters() == 1);
        assertFalse(elsewhere(() -> lock.tryLock(0, TimeUnit.SECONDS)).booleanValue());
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> lock.tryLock(1, TimeUnit.SECONDS));
        lock.unlock();
        assertTrue(waits.get(1, TimeUnit.MINUTES).booleanValue());
    }

    @Test
    void anotherThreadCannotUnlock() throws Exception {
        DistributedLock lock = registry.obtain("mine");
        lock.lock();
        elsewhere(() -> assertThrows(IllegalMonitorStateException.class, lock::unlock));
        registry.expireUnusedOlderThan(-1000);
        assertTrue(client.look("spring/mine").held());
        lock.unlock();
    }

    @Test
    void aLockWithATtlEnds() throws Exception {
        DistributedLock lock = registry.obtain("ttl");
        assertThrows(IllegalArgumentException.class, () -> lock.lock(Duration.ZERO));
        assertTrue(lock.tryLock(Duration.ZERO, Duration.ofSeconds(4)));
        elsewhere(() -> {
            otherRegistry.obtain("ttl").lock(Duration.ofMillis(500)); // when that has ended
            return null;
        });
        assertThrows(LockLostException.class, lock::lock);
        RuntimeException late = assertThrows(ConcurrentModificationException.class, lock::unlock);
        assertInstanceOf(LockLostException.class, late.getCause());
        lock.lock();
        lock.unlock();
    }

    @Test
    void aTtlIsRenewed() throws Exception {
        DistributedLock lock = registry.obtain("renewed");
        assertThrows(IllegalMonitorStateException.class, () -> registry.renewLock("renewed"));
        lock.lock(Duration.ofSeconds(30));
        registry.renewLock("renewed", LONG);
        assertTrue(client.look("spring/renewed").ttl().compareTo(Duration.ofMinutes(2)) > 0);
        assertFalse(client.holds("spring/renewed").get(0).renewed());
        registry.renewLock("renewed");
        assertTrue(client.holds("spring/renewed").get(0).renewed());
        elsewhere(() -> assertThrows(IllegalMonitorStateException.class, () -> registry.renewLock("renewed", LONG)));
        lock.unlock();
        assertFalse(client.look("spring/renewed").held());
    }

    @Test
    void anInterruptEndsAWaitAndLeavesNothing() throws Exception {
        DistributedLock lock = registry.obtain("interrupted");
        lock.lock();
        FutureTask<Void> waits = new FutureTask<>(() -> {
            otherRegistry.obtain("interrupted").lockInterruptibly();
            return null;
        });
        Thread thread = new Thread(waits);
        thread.start();
        until(() -> client.look("spring/interrupted").waiters() == 1);
        thread.interrupt();
        ExecutionException e = assertThrows(ExecutionException.class, () -> waits.get(1, TimeUnit.MINUTES));
        assertInstanceOf(InterruptedException.class, e.getCause());
        until(() -> client.look("spring/interrupted").waiters() == 0);
        lock.unlock();
        assertFalse(client.look("spring/interrupted").held());
    }

    @Test
    void tasksAreExecutedLocked() throws Exception {
        assertEquals("done", registry.executeLocked("task", () -> {
            assertFalse(otherRegistry.obtain("task").tryLock());
            assertThrows(TimeoutException.class, () ->
                otherRegistry.executeLocked("task", Duration.ofMillis(10), () -> "never"));
            return "done";
        }));
        assertFalse(client.look("spring/task").held());
    }

    @Test
    void aLeaderIsRevokedWhenItsLockIsLost() throws Exception {
        LockRegistryLeaderInitiator here = candidate(registry);
        LockRegistryLeaderInitiator there = candidate(otherRegistry);
        here.start();
        until(() -> here.getContext().isLeader());
        there.start();
        until(() -> client.look("spring/leader").waiters() == 1);
        client.forceUnlock("spring/leader", LockKind.EXCLUSIVE, "test");
        until(() -> !here.getContext().isLeader() && there.getContext().isLeader());
        here.destroy();
        there.destroy();
        until(() -> !client.look("spring/leader").held());
    }

    private static LockRegistryLeaderInitiator candidate(LockdLockRegistry of) {
        LockRegistryLeaderInitiator i = new LockRegistryLeaderInitiator(of, new DefaultCandidate("", "leader"));
        i.setHeartBeatMillis(100);
        i.setBusyWaitMillis(LONG.toMillis()); // after a loss
        return i;
    }
}
