package io.lockd.client.locks;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockd.client.LockLostException;
import io.lockd.client.LockdClient;
import io.lockd.client.LockdException;
import io.lockd.client.testing.LockdForTests;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/**
 * What java.util.concurrent.locks documents of a lock, where one of other processes can have it, and Redisson's verbs.
 */
class ThreadLocksTest {
    private static LockdForTests lockd;
    private static LockdClient client;
    private static LockdLocks locks;

    @BeforeAll
    static void start() {
        lockd = LockdForTests.start(Path.of(System.getenv().getOrDefault("LOCKD_BIN", "lockd")));
        client = LockdClient.builder(lockd.address()).adminAddress(lockd.adminAddress()).build();
        locks = client.locks();
    }

    @AfterAll
    static void end() {
        client.close();
        lockd.close();
    }

    private static <T> T elsewhere(Callable<T> task) throws Exception {
        FutureTask<T> f = new FutureTask<>(task);
        new Thread(f).start();
        try {
            return f.get(1, TimeUnit.MINUTES);
        } catch (ExecutionException e) {
            throw (Exception) e.getCause();
        }
    }

    private static boolean saysElsewhere(Callable<Boolean> question) throws Exception {
        return elsewhere(question);
    }

    @Test
    void isReentrant() throws Exception {
        RLock lock = locks.getLock("reentrant");
        assertEquals(0, lock.getHoldCount());
        lock.lock();
        assertTrue(lock.tryLock());
        assertTrue(lock.tryLock(1, TimeUnit.MINUTES));
        lock.lockInterruptibly();
        assertEquals(4, locks.getLock("reentrant").getHoldCount()); // another object is the same lock
        for (int left = 3; left >= 0; left--) {
            assertFalse(saysElsewhere(lock::tryLock));
            lock.unlock();
            assertEquals(left, lock.getHoldCount());
        }
        assertFalse(lock.isHeldByCurrentThread());
        boolean free = saysElsewhere(() -> {
            boolean got = lock.tryLock();
            lock.unlock();
            return got;
        });
        assertTrue(free);
    }

    @Test
    void onlyItsThreadUnlocks() throws Exception {
        Lock lock = locks.getLock("owned");
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        lock.lock();
        assertThrows(IllegalMonitorStateException.class, () -> elsewhere(() -> {
            lock.unlock();
            return null;
        }));
        lock.unlock();
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
    }

    @Test
    void interruptionEndsTheWaitsThatSaySo() throws Exception {
        RLock lock = locks.getLock("interrupted");
        lock.lock();
        for (Callable<Object> wait : java.util.List.<Callable<Object>>of(
            () -> {
                lock.lockInterruptibly();
                return null;
            },
            () -> lock.tryLock(1, TimeUnit.MINUTES))) {
            FutureTask<Object> f = new FutureTask<>(wait);
            Thread t = new Thread(f);
            t.start();
            t.interrupt();
            ExecutionException e = assertThrows(ExecutionException.class, () -> f.get(1, TimeUnit.MINUTES));
            assertInstanceOf(InterruptedException.class, e.getCause());
        }
        FutureTask<Boolean> patient = new FutureTask<>(() -> {
            lock.lock();
            lock.unlock();
            return Thread.interrupted();
        });
        Thread t = new Thread(patient);
        t.start();
        t.interrupt();
        lock.unlock();
        assertTrue(patient.get(1, TimeUnit.MINUTES)); // it got the lock, and was told of the interruption then
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, lock::lockInterruptibly);
        assertFalse(Thread.currentThread().isInterrupted());
    }

    @Test
    void aTimedWaitEnds() throws Exception {
        RLock lock = locks.getFairLock("timed");
        lock.lock();
        long begin = System.nanoTime();
        assertFalse(saysElsewhere(() -> lock.tryLock(50, TimeUnit.MILLISECONDS)));
        assertTrue(System.nanoTime() - begin >= TimeUnit.MILLISECONDS.toNanos(50));
        assertFalse(saysElsewhere(() -> lock.tryLock(-1, TimeUnit.MILLISECONDS)));
        lock.unlock();
    }

    @Test
    void aWriterMayReadAndAReaderMayNotWrite() throws Exception {
        RReadWriteLock rw = locks.getReadWriteLock("rw");
        rw.writeLock().lock();
        rw.readLock().lock();
        assertTrue(rw.writeLock().isLocked());
        rw.writeLock().unlock(); // only reads now
        boolean shared = saysElsewhere(() -> {
            boolean got = rw.readLock().tryLock();
            rw.readLock().unlock();
            return got;
        });
        assertTrue(shared);
        assertFalse(saysElsewhere(() -> rw.writeLock().tryLock()));
        assertEquals("LOCK_UPGRADE", assertThrows(LockdException.class, () -> rw.writeLock().lock()).reason());
        assertEquals(1, rw.readLock().getHoldCount());
        rw.readLock().unlock();
        assertFalse(rw.readLock().isLocked());
    }

    @Test
    void aLeaseEndsAndUnlockSaysSo() throws Exception {
        RLock lock = locks.getLock("leased");
        assertTrue(lock.tryLock(60, 4, TimeUnit.SECONDS)); // what follows is to be done before its lease has ended
        lock.lock(4, TimeUnit.SECONDS);
        long fence = lock.getFence();
        assertTrue(lock.remainTimeToLive() > 0);
        elsewhere(() -> {
            lock.lock(); // when the lease has ended
            assertTrue(lock.getFence() > fence);
            lock.unlock();
            return null;
        });
        assertThrows(LockLostException.class, lock::lock);
        assertThrows(LockLostException.class, lock::tryLock);
        assertFalse(lock.isHeldByCurrentThread());
        assertEquals(0, lock.getHoldCount());
        assertInstanceOf(LockLostException.class, assertThrows(IllegalMonitorStateException.class, lock::unlock)
            .getCause());
        assertEquals(-2, lock.remainTimeToLive());
        lock.lock();
        lock.unlock();
    }

    @Test
    void aThreadThatWasToldOfALossLocksAnew() throws Exception {
        RLock lock = locks.getLock("told");
        Callable<Boolean> told = () -> lock.isHeldByCurrentThread();
        Callable<Boolean> counted = () -> lock.getHoldCount() > 0;
        for (Callable<Boolean> asks : List.of(told, counted)) {
            lock.lock();
            lock.lock();
            assertTrue(asks.call());
            elsewhere(() -> lock.forceUnlock());
            while (asks.call()) {
                Thread.sleep(5);
            }
            assertTrue(lock.tryLock()); // a thread of a pool has its next job
            assertEquals(1, lock.getHoldCount());
            lock.unlock();
            assertThrows(IllegalMonitorStateException.class, lock::unlock);
        }
    }

    @Test
    void isUnlockedByForce() throws Exception {
        RFencedLock lock = locks.getFencedLock("forced");
        assertNotNull(lock.lockAndGetToken());
        assertNull(elsewhere(lock::tryLockAndGetToken));
        boolean forced = saysElsewhere(lock::forceUnlock);
        assertTrue(forced);
        assertFalse(lock.isLocked());
        assertFalse(lock.forceUnlock());
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        try (LockdClient without = LockdClient.connect(lockd.address())) {
            assertThrows(IllegalStateException.class, () -> without.locks().getLock("forced").forceUnlock());
        }
    }

    @Test
    void severalAreOne() throws Exception {
        RLock b = locks.getLock("multi/b");
        RLock both = locks.getMultiLock(locks.getLock("multi/a"), b);
        elsewhere(() -> {
            b.lock();
            return null;
        });
        assertFalse(both.tryLock());
        b.forceUnlock();
        assertTrue(both.tryLock(1, TimeUnit.MINUTES));
        assertTrue(both.isLocked() && b.isLocked());
        both.unlock();
        assertFalse(b.isLocked());
    }

    @Test
    void permitsHaveIds() throws Exception {
        RPermitExpirableSemaphore s = locks.getPermitExpirableSemaphore("permits");
        assertTrue(s.trySetPermits(2));
        assertFalse(s.trySetPermits(3));
        String one = s.acquire();
        String two = s.tryAcquire(60, 60, TimeUnit.SECONDS);
        assertNull(s.tryAcquire());
        assertEquals(0, s.availablePermits());
        elsewhere(() -> { // of no thread
            s.release(one);
            return null;
        });
        assertThrows(IllegalArgumentException.class, () -> s.release(one));
        assertTrue(s.updateLeaseTime(two, 4, TimeUnit.SECONDS));
        s.setPermits(1);
        assertNotNull(s.tryAcquire(1, TimeUnit.MINUTES)); // when that has ended
        assertFalse(s.tryRelease(two));
        assertEquals(1, s.getPermits());
    }
}
