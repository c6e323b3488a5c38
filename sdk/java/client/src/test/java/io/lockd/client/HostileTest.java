package io.lockd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * Servers that behave wrongly hurt nobody: calls keep their bounds, throw nothing but what is documented, and report no
 * lock as held that was not asked for. After close nothing is left. The property lockd.hostile names the servers, see test/hostile.
 */
class HostileTest {
    private static final Duration ANSWER = Duration.ofMillis(300);
    /** Bounds all calls of all clients together. They take 10 s by their own bounds; the machine may be busy. */
    private static final Duration ALL = Duration.ofMinutes(2);

    private static Map<String, String> servers() {
        return World.servers("lockd.hostile");
    }

    /** All at once: each takes seconds, as most of what is asked has no answer. */
    @Test
    void eachServer() throws Exception {
        Map<String, CompletableFuture<Object>> ended = new HashMap<>();
        Map<String, Thread> users = new HashMap<>();
        servers().forEach((name, address) -> {
            CompletableFuture<Object> end = new CompletableFuture<>();
            Thread user = new Thread(() -> {
                try {
                    end.complete(use(address));
                } catch (Throwable e) {
                    end.completeExceptionally(e);
                }
            });
            user.setDaemon(true);
            user.start();
            ended.put(name, end);
            users.put(name, user);
        });
        List<String> failed = new ArrayList<>();
        long last = System.nanoTime() + ALL.toNanos();
        ended.forEach((name, end) -> {
            try {
                end.get(Math.max(last - System.nanoTime(), 0), TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                failed.add(name + ": has no end: " + Arrays.toString(users.get(name).getStackTrace()));
            } catch (ExecutionException e) {
                failed.add(name + ": " + e.getCause() + " " + Arrays.toString(e.getCause().getStackTrace()));
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
        assertEquals(List.of(), failed);
        World.until("no thread is left", () -> threads().isEmpty());
    }

    private static Object use(String address) throws Exception {
        LockdClient client = LockdClient.builder(address).name("user").answerTimeout(ANSWER).onStatus(s -> { }).build();
        quietly(() -> client.lock("job").tryAcquire().map(HostileTest::used));
        quietly(() -> used(client.lock("job").waitUpTo(ANSWER).onQueued(i -> { }).onHeld(h -> { }).acquire()));
        quietly(() -> used(client.lock("job").waitUpTo(ANSWER).lease(Duration.ofMinutes(1)).acquire()));
        quietly(() -> used(client.lock("job").semaphore(2, 2).waitUpTo(ANSWER).acquire()));
        quietly(() -> {
            client.lockAll("a", "b").waitUpTo(ANSWER).acquire().unlock();
            return null;
        });
        quietly(() -> used(client.lock("job").waitUpTo(ANSWER).acquireAsync().get(1, TimeUnit.MINUTES)));
        quietly(() -> client.look("job"));
        quietly(() -> client.holds(""));
        quietly(() -> client.setLimit("job", 3));
        quietly(() -> {
            client.watch("job", e -> { }).close();
            return null;
        });
        quietly(() -> used(client.withTtl(Duration.ofSeconds(1)).lock("job").waitUpTo(ANSWER).acquire()));
        client.close();
        return null;
    }

    /** Uses a lock for all that it can do. */
    private static Object used(Held h) {
        assertEquals("job", h.name());
        for (Runnable use : List.<Runnable>of(h::check, () -> h.extend(ALL), () -> h.shorten(ANSWER), h::makeAuto,
            h::unlock)) {
            quietly(() -> {
                use.run();
                return null;
            });
        }
        assertTrue(!h.isHeld() && h.remaining().isZero());
        return h;
    }

    /** What is thrown is of the SDK, and says something. */
    private static void quietly(Callable<?> call) {
        try {
            call.call();
        } catch (LockdException e) {
            assertTrue(!e.getMessage().isEmpty());
        } catch (ExecutionException e) {
            assertTrue(e.getCause() instanceof LockdException, () -> "" + e.getCause());
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    private static List<String> threads() {
        return Thread.getAllStackTraces().keySet().stream().map(Thread::getName).filter(n -> n.startsWith("lockd-"))
            .collect(Collectors.toList());
    }

    /** The server tells something as fast as it is read, and the program takes none of it. */
    @Test
    void whoDoesNotListenIsToldLittle() throws Exception {
        AtomicInteger told = new AtomicInteger();
        CountDownLatch listens = new CountDownLatch(1);
        Runnable listener = () -> {
            told.incrementAndGet();
            await(listens);
        };
        LockdClient client = LockdClient.builder(servers().get("pushes for ever")).answerTimeout(ANSWER)
            .onStatus(s -> listener.run()).build();
        client.lock("job").waitUpTo(ALL).onQueued(i -> listener.run()).acquireAsync();
        World.until("it is told something", () -> told.get() > 0);
        Thread.sleep(3_000); // neither keeps the other for longer than a second
        client.close();
        assertTrue(told.get() <= 2, () -> told.get() + " calls at a time");
        listens.countDown();
        Thread.sleep(200);
        assertTrue(told.get() <= 2 + 2 * 64, () -> told.get() + " were kept");
    }

    /** An answer to a heartbeat counts from when that was sent: 600 ms before it comes. */
    @Test
    void aLateAnswerMakesNoLeaseLonger() throws Exception {
        Duration lease = Duration.ofMinutes(1);
        try (LockdClient client = LockdClient.builder(servers().get("beats late")).answerTimeout(ALL).build()) {
            client.look("job"); // from here on a grant counts, too
            Thread.sleep(600);
            Held h = client.lock("job").acquire();
            int renewals = 0;
            for (Duration before = h.remaining(); renewals < 3; Thread.sleep(1)) {
                Duration left = h.remaining();
                assertTrue(left.compareTo(lease.minusMillis(500)) < 0, left::toString);
                renewals += left.compareTo(before) > 0 ? 1 : 0;
                before = left;
            }
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** More requests than a client may have without an answer, none of which is answered, and nobody waits any more. */
    @Test
    void aServerThatNeverAnswersFillsNothing() throws Exception {
        try (LockdClient client = LockdClient.builder(servers().get("answers nothing")).answerTimeout(ANSWER).build()) {
            String last = "";
            for (int i = 0; i < 1_000 && !last.equals("QUOTA_REQUESTS"); i++) {
                List<CompletableFuture<Held>> asked = Stream
                    .generate(() -> client.lock("job").waitUpTo(Duration.ZERO).acquireAsync()).limit(2_000).toList();
                for (CompletableFuture<Held> a : asked) {
                    last = ((LockdException) a.handle((h, e) -> e).get(1, TimeUnit.MINUTES)).reason();
                }
            }
            assertEquals("QUOTA_REQUESTS", last);
        }
    }
}
