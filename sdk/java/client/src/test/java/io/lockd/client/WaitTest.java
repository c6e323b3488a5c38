package io.lockd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockd.client.testing.LockdForTests;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Waiting, its end, and many who wait. TEST_LONG=1 does more of the same. */
class WaitTest {
    private static final boolean LONG = "1".equals(System.getenv("TEST_LONG"));

    private static World world;
    private static LockdForTests lockd;
    private static LockdClient client;

    @BeforeAll
    static void start() throws Exception {
        world = new World();
        lockd = world.lockd();
        client = LockdClient.connect(lockd.address());
    }

    @AfterAll
    static void end() throws Exception {
        client.close();
        lockd.close();
        world.close();
    }

    /** Interrupt, cancel and time-out in turn, some just when the lock is granted. */
    @Test
    void aWaitThatEndsLeavesNothing() throws Exception {
        LockKind[] kinds = {LockKind.EXCLUSIVE, LockKind.FAIR};
        for (int i = 0; i < (LONG ? 1000 : 30); i++) {
            String name = "left/" + i % 2;
            Held h = client.lock(name).kind(kinds[i % 2]).acquire();
            CompletableFuture<Held> cancelled = client.lock(name).kind(kinds[i % 2]).acquireAsync();
            AtomicReference<Throwable> how = new AtomicReference<>();
            Thread interrupted = waiter(name, kinds[i % 2], how);
            interrupted.start();
            Thread.sleep(i % 5);
            if (i % 3 == 0) { // the grant and the end of the wait meet
                h.unlockAsync();
            }
            if (!cancelled.cancel(true)) { // it was granted before
                cancelled.join().unlock();
            }
            interrupted.interrupt();
            assertThrowsTimeoutOrGrants(name, kinds[i % 2]);
            interrupted.join(World.PATIENCE.toMillis());
            assertTrue(how.get() == null || how.get() instanceof InterruptedException, () -> "" + how.get());
            World.until("nobody waits", () -> client.look(name).waiters() + client.look(name).queued() == 0);
            h.close();
            World.until("nobody holds it or waits", () -> {
                LockInfo info = client.look(name);
                return !info.held() && info.waiters() == 0 && info.queued() == 0;
            });
        }
        assertEquals(List.of(), client.holds(""));
    }

    private Thread waiter(String name, LockKind kind, AtomicReference<Throwable> how) {
        return new Thread(() -> {
            try {
                client.lock(name).kind(kind).acquire().unlock();
            } catch (Throwable e) {
                how.set(e);
            }
        });
    }

    private void assertThrowsTimeoutOrGrants(String name, LockKind kind) throws InterruptedException {
        try {
            client.lock(name).kind(kind).waitUpTo(Duration.ofMillis(5)).acquire().unlock();
        } catch (LockTimeoutException e) {
            assertEquals("WAIT_TIMEOUT", e.reason());
        }
    }

    /** Whoever lets the time of a future be over, or completes it, does not wait any more either. */
    @Test
    void aFutureThatIsCompletedOtherwiseIsTakenBack() throws Exception {
        try (Held h = client.lock("otherwise").fair().acquire()) {
            CompletableFuture<Held> late = client.lock("otherwise").fair().acquireAsync();
            CompletableFuture<Held> other = client.lock("otherwise").fair().acquireAsync();
            World.until("they wait", () -> client.look("otherwise").queued() == 2);
            late.orTimeout(1, TimeUnit.MILLISECONDS);
            other.complete(h);
            World.until("nobody waits", () -> client.look("otherwise").queued() == 0);
            assertTrue(late.isCompletedExceptionally());
        }
    }

    /** A counter that is not atomic. */
    private int counter;

    @Test
    void manyThreadsTakeTurns() throws Exception {
        int sections = LONG ? 1000 : 50;
        all(16, () -> {
            for (int i = 0; i < sections; i++) {
                try (Held h = client.lock("counter").acquire()) {
                    int read = counter;
                    Thread.yield();
                    counter = read + 1;
                }
            }
            return null;
        });
        assertEquals(16 * sections, counter);
    }

    private static void all(int threads, Callable<Void> task) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<Void>> done = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            done.add(pool.submit(task));
        }
        for (Future<Void> f : done) {
            f.get(10, TimeUnit.MINUTES);
        }
        pool.shutdown();
    }

    @Test
    void aRollingRestartCostsNothing() throws Exception {
        if (!LONG) {
            return;
        }
        List<LockdForTests> replicas = new ArrayList<>(List.of(world.lockd(), world.lockd()));
        String addresses = lockd.address() + "," + replicas.get(0).address() + "," + replicas.get(1).address();
        CountDownLatch over = new CountDownLatch(1);
        try (LockdClient c = LockdClient.connect(addresses)) {
            Thread rolling = new Thread(() -> roll(replicas, over));
            rolling.start();
            all(32, () -> {
                for (int i = 0; over.getCount() > 0; i++) {
                    try (Held h = c.lock("rolling/" + i % 8).acquire()) {
                        Thread.sleep(5);
                        h.check();
                    }
                }
                return null;
            });
            rolling.join();
        } finally {
            replicas.forEach(LockdForTests::close);
        }
    }

    private void roll(List<LockdForTests> replicas, CountDownLatch over) {
        try {
            for (int i = 0; i < replicas.size(); i++) {
                Thread.sleep(2000);
                LockdForTests old = replicas.get(i);
                String address = old.address();
                old.stop();
                old.await();
                replicas.set(i, world.lockd("LOCKD_LISTEN", address));
            }
            Thread.sleep(2000);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        } finally {
            over.countDown();
        }
    }

    @Test
    void whoWaitsIsToldWhoIsInTheWay() throws Exception {
        try (LockdClient billing = LockdClient.builder(lockd.address()).name("billing").build()) {
            Held first = billing.lock("told").annotation("first").acquire();
            CompletableFuture<Held> second = billing.lock("told").annotation("second").acquireAsync();
            World.until("it waits", () -> client.look("told").waiters() == 1);
            BlockingQueue<HolderInfo> told = new LinkedBlockingQueue<>();
            BlockingQueue<Integer> ahead = new LinkedBlockingQueue<>();
            CompletableFuture<Held> third = client.lock("told").onHeld(told::add).onQueued(ahead::add).acquireAsync();
            HolderInfo by = told.poll(1, TimeUnit.MINUTES);
            assertEquals("told billing first", by.name() + " " + by.client() + " " + by.annotation());
            assertFalse(by.heldBy().isEmpty());
            assertTrue(by.who().startsWith("billing (first) from "), by::who);
            first.unlock();
            assertEquals("second", told.poll(1, TimeUnit.MINUTES).annotation());
            second.get(1, TimeUnit.MINUTES).unlock();
            third.get(1, TimeUnit.MINUTES).unlock();
            assertEquals(List.of(1), List.copyOf(ahead)); // the number stayed, though somebody else is in the way
        }
    }

    /** A function that never returns keeps no lock from who asked for it, and no news from anybody else. */
    @Test
    void aFunctionThatDoesNotReturnStopsOnlyItself() throws Exception {
        CountDownLatch ever = new CountDownLatch(1);
        Runnable hang = () -> {
            try {
                ever.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        };
        try (LockdClient c = LockdClient.builder(lockd.address()).onStatus(s -> hang.run()).build()) {
            Held first = client.lock("hangs").acquire();
            CompletableFuture<Held> granted = new CompletableFuture<>();
            Thread waits = new Thread(() -> {
                try {
                    granted.complete(c.lock("hangs").onQueued(i -> hang.run()).onHeld(h -> hang.run()).acquire());
                } catch (InterruptedException | RuntimeException e) {
                    granted.completeExceptionally(e);
                }
            });
            waits.setDaemon(true);
            waits.start();
            World.until("it waits", () -> client.look("hangs").waiters() == 1);
            first.unlock();
            granted.get(1, TimeUnit.MINUTES).unlock();
            c.lock("hangs").acquireAsync().get(1, TimeUnit.MINUTES).unlock();
            BlockingQueue<LockLostException> lost = new LinkedBlockingQueue<>();
            Held brief = c.lock("brief").lease(Duration.ofSeconds(1)).acquire();
            brief.onLost(e -> hang.run()).onLost(lost::add);
            assertTrue(lost.poll(1, TimeUnit.MINUTES) != null, "no loss is told");
        } finally {
            ever.countDown();
        }
    }

    @Test
    void aTtlOfItsOwnIsASessionOfItsOwn() throws Exception {
        BlockingQueue<Duration> ttls = new LinkedBlockingQueue<>();
        CountDownLatch both = new CountDownLatch(1);
        LockdClient c = LockdClient.builder(lockd.address()).name("ttls").sessionTtl(Duration.ofMinutes(1))
            .onStatus(s -> {
                ttls.add(s.ttl());
                awaits(both);
            }).build();
        LockdClient quick = c.withTtl(Duration.ofSeconds(10));
        assertSame(quick, c.withTtl(Duration.ofSeconds(10)));
        assertNotSame(quick, c.withTtl(Duration.ofSeconds(20)));
        Held slow = c.lock("ttl/slow").acquire();
        Held soon = quick.lock("ttl/soon").acquire();
        assertTrue(slow.remaining().toSeconds() > 30, slow.remaining()::toString);
        assertTrue(soon.remaining().toSeconds() < 11, soon.remaining()::toString);
        assertFalse(quick.lock("ttl/slow").tryAcquire().isPresent());
        assertEquals(1, ttls.size()); // the other session is told of when that has returned
        both.countDown();
        assertEquals(Duration.ofSeconds(70), ttls.take().plus(ttls.take()));
        quick.close();
        assertFalse(soon.isHeld());
        LockdClient next = c.withTtl(Duration.ofSeconds(10));
        next.lock("ttl/soon").acquire();
        c.close();
        assertFalse(client.look("ttl/soon").held());
        assertThrows(ClientClosedException.class, () -> next.lock("ttl/soon").tryAcquire());
        assertThrows(ClientClosedException.class, () -> c.withTtl(Duration.ofSeconds(10)));
        World.until("its threads have ended", () -> Thread.getAllStackTraces().keySet().stream()
            .noneMatch(t -> t.getName().contains("ttls")));
    }

    private static void awaits(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void aTtlThatIsNotAllowedIsRefused() {
        assertThrows(IllegalArgumentException.class, () -> client.withTtl(Duration.ZERO));
        LockdException refused = assertThrows(LockdException.class,
            () -> client.withTtl(Duration.ofMillis(1)).lock("ttl/short").acquire());
        assertEquals("INVALID_DURATION", refused.reason());
    }

    @Test
    void closeReleasesAllAndLeavesNothing() throws Exception {
        try (Proxy way = new Proxy(lockd.address())) {
            for (int i = 0; i < (LONG ? 100 : 1); i++) {
                closes(LockdClient.builder(way.address()).name("closing").build());
                World.until("its connection has ended", () -> way.connections() == 0);
            }
        }
    }

    private void closes(LockdClient c) throws Exception {
        Held h = c.lock("closed").acquire();
        CompletableFuture<Held> waits = c.lock("closed").acquireAsync();
        Watch w = c.election("closed/election").observe(l -> { });
        c.close();
        assertThrows(ClientClosedException.class, h::check);
        Throwable why = assertThrows(Exception.class, () -> waits.get(1, TimeUnit.MINUTES)).getCause();
        assertTrue(why instanceof ClientClosedException, () -> "" + why);
        assertThrows(ClientClosedException.class, () -> c.lock("closed").acquire());
        assertThrows(ClientClosedException.class, () -> c.look("closed"));
        c.close();
        w.close();
        assertFalse(client.look("closed").held());
        World.until("its threads have ended", () -> Thread.getAllStackTraces().keySet().stream()
            .noneMatch(t -> t.getName().contains("closing") || t.getName().contains("observe")));
    }
}
