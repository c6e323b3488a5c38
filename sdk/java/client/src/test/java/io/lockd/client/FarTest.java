package io.lockd.client;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockd.client.testing.LockdForTests;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Far away an answer is old when it comes. What it says of time counts from when it was asked for. */
class FarTest {
    /** How long a message takes. */
    private static final Duration WAY = Duration.ofMillis(400);

    private static World world;
    private static LockdForTests lockd;
    private static LockdClient near;

    @BeforeAll
    static void start() throws Exception {
        world = new World();
        lockd = world.lockd();
        near = LockdClient.connect(lockd.address());
    }

    @AfterAll
    static void end() throws Exception {
        near.close();
        lockd.close();
        world.close();
    }

    /** A lease is told as shorter by both ways, at any time. Half of that is left to who reads the clock. */
    private static void assertOlder(Duration lease, Held h) {
        Duration left = h.remaining();
        assertTrue(left.compareTo(lease.minus(WAY)) < 0, () -> h + " of " + lease + " is told to last " + left);
    }

    @Test
    void aLeaseCountsFromTheRequest() throws Exception {
        Duration ttl = Duration.ofSeconds(6);
        try (Proxy proxy = new Proxy(lockd.address()); LockdClient client = LockdClient.builder(proxy.address())
            .sessionTtl(ttl).build()) {
            client.lock("before").acquire().unlock(); // it is connected
            proxy.far(WAY);
            Held auto = client.lock("auto").acquire();
            assertOlder(ttl, auto);
            Held fixed = client.lock("fixed").lease(Duration.ofSeconds(20)).acquire();
            assertOlder(Duration.ofSeconds(20), fixed);
            fixed.extend(Duration.ofSeconds(30));
            assertOlder(Duration.ofSeconds(30), fixed);
            for (long end = System.nanoTime() + ttl.toNanos() / 2; System.nanoTime() < end; Thread.sleep(2)) {
                assertKept(auto);
            }
        }
    }

    /** Nobody trusts a lease for longer than it is kept. */
    private static void assertKept(Held h) {
        long began = System.nanoTime();
        Duration trusted = h.remaining();
        Duration kept = near.look(h.name()).ttl();
        Duration took = Duration.ofNanos(System.nanoTime() - began);
        assertTrue(trusted.compareTo(kept.plus(took)) <= 0,
            () -> h + " is trusted for " + trusted + " and kept for " + kept + ", asked for in " + took);
    }

    @Test
    void aLeaseIsRenewedThreeTimesInATtl() throws Exception {
        Duration ttl = Duration.ofSeconds(8);
        try (LockdClient client = LockdClient.builder(lockd.address()).sessionTtl(ttl).build();
            Held h = client.lock("renewed").acquire()) {
            List<Long> renewed = new ArrayList<>();
            Duration before = h.remaining();
            for (; renewed.size() < 3; Thread.sleep(2)) {
                h.check();
                Duration left = h.remaining();
                if (left.compareTo(before.plusMillis(100)) > 0) {
                    renewed.add(System.nanoTime());
                }
                before = left;
            }
            long shortest = IntStream.range(1, 3).mapToLong(i -> renewed.get(i) - renewed.get(i - 1)).min().orElse(0);
            assertTrue(shortest < ttl.toNanos() / 2, () -> "renewed after " + Duration.ofNanos(shortest));
        }
    }

    @Test
    void aShorterLeaseCountsFromTheCall() throws Exception {
        try (Proxy proxy = new Proxy(lockd.address()); LockdClient client = LockdClient.builder(proxy.address())
            .sessionTtl(Duration.ofMinutes(1)).answerTimeout(World.PATIENCE).build()) {
            Held h = client.lock("shortened").acquire();
            proxy.far(Duration.ofSeconds(2));
            CompletableFuture<Void> answered = CompletableFuture.runAsync(() -> h.shorten(Duration.ofSeconds(20)));
            World.until("it is shorter", () -> h.remaining().compareTo(Duration.ofSeconds(21)) < 0);
            assertFalse(answered.isDone());
            proxy.far(Duration.ZERO);
            answered.get(1, TimeUnit.MINUTES);
            h.unlock();
        }
    }

    /** The grant is on its way to somebody who has gone. */
    @Test
    void aGrantThatComesTooLateIsReleased() throws Exception {
        try (Proxy proxy = new Proxy(lockd.address()); LockdClient client = LockdClient.connect(proxy.address())) {
            client.lock("late").acquire().unlock(); // it is connected
            proxy.far(WAY);
            CompletableFuture<Held> future = client.lock("late").acquireAsync();
            World.until("it is granted", () -> near.look("late").held());
            while (!future.cancel(true)) { // the grant was faster
                future.join().unlock();
                future = client.lock("late").acquireAsync();
                World.until("it is granted", () -> near.look("late").held());
            }
            World.until("it is released", () -> !near.look("late").held());
        }
    }

    /** The grant is there, and the future that is cancelled has not been told yet. */
    @Test
    void aGrantThatNobodyTookIsReleased() throws Exception {
        Queue<Runnable> untold = new ConcurrentLinkedQueue<>();
        try (LockdClient client = LockdClient.builder(lockd.address()).executor(untold::add).build()) {
            CompletableFuture<Held> future = client.lock("untaken").acquireAsync();
            World.until("it is granted", () -> !untold.isEmpty());
            assertTrue(near.look("untaken").held());
            assertTrue(future.cancel(true));
            new ArrayDeque<>(untold).forEach(Runnable::run);
            World.until("it is released", () -> !near.look("untaken").held());
        }
    }

    /** The grant is there, and the thread that is interrupted has not been told yet. */
    @Test
    void aGrantOfWhoIsInterruptedIsReleased() throws Exception {
        try (LockdClient client = LockdClient.connect(lockd.address())) {
            CountDownLatch told = new CountDownLatch(1);
            CountDownLatch goOn = new CountDownLatch(1);
            Held first = near.lock("interrupted").acquire();
            CompletableFuture<Held> got = new CompletableFuture<>();
            Thread waiter = new Thread(() -> {
                try {
                    got.complete(client.lock("interrupted").onQueued(ahead -> {
                        told.countDown();
                        awaits(goOn); // what is granted is told after that
                    }).acquire());
                } catch (InterruptedException e) {
                    got.completeExceptionally(e);
                }
            });
            waiter.start();
            assertTrue(told.await(1, TimeUnit.MINUTES));
            first.unlock();
            World.until("it is granted", () -> client.holds("interrupted").size() == 1);
            waiter.interrupt();
            World.until("the wait is being taken back", () -> !waiter.isInterrupted());
            Thread.sleep(20);
            goOn.countDown();
            Throwable why = assertThrows(ExecutionException.class, () -> got.get(1, TimeUnit.MINUTES)).getCause();
            assertTrue(why instanceof InterruptedException, () -> "" + why);
            World.until("it is released", () -> !near.look("interrupted").held());
        }
    }

    private static void awaits(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
