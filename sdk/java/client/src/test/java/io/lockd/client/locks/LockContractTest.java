package io.lockd.client.locks;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockd.client.LockdClient;
import io.lockd.client.testing.LockdForTests;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * What Lock, ReentrantLock and ReentrantReadWriteLock document, written from that. docs/java-sdk.md says what cannot
 * hold where a lock is shared with other processes.
 */
@Timeout(value = 5, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class LockContractTest {
    private static LockdForTests lockd;
    private static LockdClient client;
    private static LockdLocks locks;

    @BeforeAll
    static void start() {
        lockd = LockdForTests.start(Path.of(System.getenv().getOrDefault("LOCKD_BIN", "lockd")));
        client = LockdClient.builder(lockd.address()).answerTimeout(Duration.ofMinutes(1)).build();
        locks = client.locks();
    }

    @AfterAll
    static void end() {
        client.close();
        lockd.close();
    }

    private interface Task {
        Object run() throws Exception;
    }

    private static FutureTask<Object> begin(Task task) {
        FutureTask<Object> f = new FutureTask<>(task::run);
        new Thread(f).start();
        return f;
    }

    private static Object elsewhere(Task task) throws Exception {
        return begin(task).get(1, TimeUnit.MINUTES);
    }

    private static void awaitWaiters(String name, int wanted) throws Exception {
        for (long end = System.nanoTime() + 60_000_000_000L;; Thread.sleep(2)) {
            int waiters = client.look(name).waiters();
            if (waiters == wanted) {
                return;
            }
            assertTrue(System.nanoTime() < end, () -> waiters + " wait for " + name + ", not " + wanted);
        }
    }

    /** What is done under the lock happens before what is done under it next, in another thread. */
    @Test
    void threadsExcludeEachOther() throws Exception {
        Lock lock = locks.getLock("excluded");
        int[] count = new int[1]; // of no atomic kind
        List<FutureTask<Object>> all = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            boolean tries = i % 2 == 0;
            all.add(begin(() -> {
                for (int n = 0; n < 50; n++) {
                    if (tries) {
                        assertTrue(lock.tryLock(1, TimeUnit.MINUTES));
                    } else {
                        lock.lock();
                    }
                    try {
                        count[0]++;
                    } finally {
                        lock.unlock();
                    }
                }
                return null;
            }));
        }
        for (FutureTask<Object> f : all) {
            f.get(2, TimeUnit.MINUTES);
        }
        assertEquals(400, count[0]);
    }

    @Test
    void aWaitMayBeAsLongAsThereAreNumbers() throws Exception {
        for (TimeUnit unit : TimeUnit.values()) {
            RLock lock = locks.getLock("long " + unit);
            lock.lock();
            FutureTask<Object> waits = begin(() -> {
                boolean got = lock.tryLock(Long.MAX_VALUE, unit);
                lock.unlock();
                return got;
            });
            awaitWaiters("long " + unit, 1);
            lock.unlock();
            assertEquals(true, waits.get(1, TimeUnit.MINUTES));
        }
    }

    @Test
    void aWaitOfNoTimeTriesOnce() throws Exception {
        Lock lock = locks.getLock("no time");
        for (long none : new long[] {0, -1, Long.MIN_VALUE}) {
            assertTrue(lock.tryLock(none, TimeUnit.DAYS)); // it is free
            assertEquals(false, elsewhere(() -> lock.tryLock(none, TimeUnit.DAYS)));
            lock.unlock();
        }
    }

    /** An interrupted thread is told so on entry by what says so, also if the lock is free, or its own; else not. */
    @Test
    void whoIsInterruptedOnEntry() throws Exception {
        RLock lock = locks.getLock("on entry");
        for (int held = 0; held < 2; held++) {
            for (Task refused : List.<Task>of(() -> {
                lock.lockInterruptibly();
                return null;
            }, () -> lock.tryLock(1, TimeUnit.MINUTES), () -> lock.tryLock(0, TimeUnit.MINUTES))) {
                Thread.currentThread().interrupt();
                assertThrows(InterruptedException.class, refused::run);
                assertFalse(Thread.interrupted());
                assertEquals(held, lock.getHoldCount());
            }
            Thread.currentThread().interrupt();
            assertTrue(lock.tryLock());
            assertTrue(Thread.interrupted()); // it was left alone
            lock.unlock();
            Thread.currentThread().interrupt();
            lock.lock();
            assertTrue(Thread.interrupted());
        }
        lock.unlock();
        lock.unlock();
        assertFalse(lock.isLocked());
    }

    /** Of several that wait the interrupted ones go, and the others get the lock. */
    @Test
    void anInterruptedWaitIsNoneForTheOthers() throws Exception {
        RLock lock = locks.getFairLock("some are interrupted");
        lock.lock();
        List<Thread> threads = new ArrayList<>();
        List<FutureTask<Object>> waits = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            FutureTask<Object> f = new FutureTask<>(() -> {
                lock.lockInterruptibly();
                lock.unlock();
                return "held";
            });
            waits.add(f);
            threads.add(new Thread(f));
            threads.get(i).start();
        }
        awaitWaiters("some are interrupted", 4);
        threads.get(0).interrupt();
        threads.get(2).interrupt();
        for (int i : new int[] {0, 2}) {
            Exception e = assertThrows(Exception.class, () -> waits.get(i).get(1, TimeUnit.MINUTES));
            assertInstanceOf(InterruptedException.class, e.getCause());
        }
        lock.unlock();
        for (int i : new int[] {1, 3}) {
            assertEquals("held", waits.get(i).get(1, TimeUnit.MINUTES));
        }
    }

    @Test
    void aFairLockKeepsTheOrderOfArrival() throws Exception {
        Lock lock = locks.getFairLock("in order");
        lock.lock();
        ConcurrentLinkedQueue<Integer> order = new ConcurrentLinkedQueue<>();
        List<FutureTask<Object>> waits = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            int me = i;
            waits.add(begin(() -> {
                lock.lock();
                order.add(me);
                lock.unlock();
                return null;
            }));
            awaitWaiters("in order", i + 1);
        }
        lock.unlock();
        for (FutureTask<Object> f : waits) {
            f.get(1, TimeUnit.MINUTES);
        }
        assertEquals(List.of(0, 1, 2, 3, 4), List.copyOf(order));
    }

    /** A failed unlock of another thread changes nothing. */
    @Test
    void theLockIsItsThreadsAlone() throws Exception {
        RLock lock = locks.getLock("alone");
        lock.lock();
        lock.lock();
        for (int i = 0; i < 3; i++) {
            assertEquals(true, elsewhere(() -> {
                assertThrows(IllegalMonitorStateException.class, lock::unlock);
                return !lock.isHeldByCurrentThread() && lock.getHoldCount() == 0 && lock.isLocked();
            }));
        }
        assertEquals(2, lock.getHoldCount());
        lock.unlock();
        lock.unlock();
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
    }

    @Test
    void whatIsThrownWhileItIsHeldLeavesItHeld() throws Exception {
        RLock lock = locks.getLock("thrown");
        try {
            lock.lock();
            throw new IllegalStateException("of the work");
        } catch (IllegalStateException e) {
            assertTrue(lock.isHeldByCurrentThread());
        } finally {
            lock.unlock();
        }
        assertFalse(lock.isLocked());
    }

    @Test
    void wrongArgumentsAreRefused() throws Exception {
        Lock lock = locks.getLock("arguments");
        assertThrows(NullPointerException.class, () -> lock.tryLock(1, null));
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
        assertThrows(NullPointerException.class, () -> locks.getLock(null));
        assertTrue(lock.toString().contains("arguments"));
        assertTrue(lock.tryLock()); // nothing was left
        lock.unlock();
    }

    /** Readers are there at once; a writer is alone. */
    @Test
    void readersShareAndAWriterDoesNot() throws Exception {
        ReadWriteLock rw = locks.getReadWriteLock("shared");
        CountDownLatch all = new CountDownLatch(4);
        AtomicInteger writers = new AtomicInteger();
        List<FutureTask<Object>> readers = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            readers.add(begin(() -> {
                rw.readLock().lock();
                all.countDown();
                assertTrue(all.await(1, TimeUnit.MINUTES)); // all of them are here
                assertEquals(0, writers.get());
                rw.readLock().unlock();
                return null;
            }));
        }
        assertTrue(all.await(1, TimeUnit.MINUTES));
        rw.writeLock().lock();
        writers.incrementAndGet();
        for (FutureTask<Object> f : readers) {
            f.get(1, TimeUnit.MINUTES);
        }
        assertEquals(false, elsewhere(() -> rw.readLock().tryLock()));
        assertEquals(false, elsewhere(() -> rw.writeLock().tryLock()));
        FutureTask<Object> reads = begin(() -> {
            rw.readLock().lock();
            int seen = writers.get();
            rw.readLock().unlock();
            return seen;
        });
        awaitWaiters("shared", 1);
        writers.decrementAndGet();
        rw.writeLock().unlock();
        assertEquals(0, reads.get(1, TimeUnit.MINUTES));
    }

    /** Of a writer that reads as well the read lock remains: it lets other readers in, and no writer. */
    @Test
    void aWriteLockIsDowngraded() throws Exception {
        ReadWriteLock rw = locks.getReadWriteLock("downgraded");
        rw.writeLock().lock();
        rw.writeLock().lock();
        rw.readLock().lock();
        rw.writeLock().unlock();
        assertEquals(false, elsewhere(() -> rw.readLock().tryLock())); // it still writes
        rw.writeLock().unlock();
        assertThrows(IllegalMonitorStateException.class, rw.writeLock()::unlock);
        assertEquals(true, elsewhere(() -> {
            boolean got = rw.readLock().tryLock();
            rw.readLock().unlock();
            return got;
        }));
        assertEquals(false, elsewhere(() -> rw.writeLock().tryLock()));
        rw.readLock().unlock();
        assertThrows(IllegalMonitorStateException.class, rw.readLock()::unlock);
    }
}
