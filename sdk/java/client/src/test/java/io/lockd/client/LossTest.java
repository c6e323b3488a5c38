package io.lockd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockd.client.testing.LockdForTests;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** What becomes of locks when a replica, the network or the process itself fails. All of it waits, side by side. */
@Execution(ExecutionMode.CONCURRENT)
class LossTest {
    private static World world;

    @BeforeAll
    static void start() throws Exception {
        world = new World();
    }

    @AfterAll
    static void end() throws Exception {
        world.close();
    }

    @Test
    void aWatchEndsWhenTheClientIsThrownOut(@TempDir Path dir) throws Exception {
        Path clients = dir.resolve("clients.yaml");
        Path token = Files.writeString(dir.resolve("token"), "secret-of-ci");
        String digest = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(token)));
        String others = "clients:\n- {name: other, token_sha256: [" + "0".repeat(64) + "], lock: ['*']}\n";
        Files.writeString(clients, others + "- {name: ci, token_sha256: [" + digest + "], lock: ['*']}\n");
        BlockingQueue<Unlocked> ends = new LinkedBlockingQueue<>();
        try (LockdForTests lockd = LockdForTests.start(World.LOCKD,
            Map.of("LOCKD_SECURITY_CLIENTS_FILE", clients.toString(), "LOCKD_STORE_KIND", "memory"));
            LockdClient client = LockdClient.builder(lockd.address()).tokenFile(token.toString())
                .answerTimeout(Duration.ofSeconds(8)).build();
            Watch w = client.watch("watched", ends::add)) {
            Files.writeString(clients, others);
            Unlocked last = ends.poll(1, TimeUnit.MINUTES);
            while (last != null && last.refused() == null) {
                last = ends.poll(1, TimeUnit.MINUTES);
            }
            assertTrue(last != null, "the watch does not end");
        }
    }

    @Test
    void aKilledReplicaCostsNoLock() throws Exception {
        BlockingQueue<LockLostException> lost = new LinkedBlockingQueue<>();
        BlockingQueue<Status.State> states = new LinkedBlockingQueue<>();
        try (LockdForTests one = world.lockd(); LockdForTests two = world.lockd();
            LockdClient client = LockdClient.builder(one.address() + "," + two.address())
                .onStatus(s -> states.add(s.state())).build();
            LockdClient other = LockdClient.connect(two.address())) {
            Held h = client.lock("moves").annotation("work").acquire().onLost(lost::add);
            Held busy = other.lock("wanted").fair().acquire();
            CompletableFuture<Held> waits = client.lock("wanted").fair().acquireAsync();
            World.until("it waits", () -> other.look("wanted").queued() == 1);
            assertEquals(Status.State.CONNECTED, states.poll(1, TimeUnit.MINUTES));
            one.close();
            assertEquals(Status.State.INTERRUPTED, states.poll(1, TimeUnit.MINUTES));
            assertEquals(Status.State.CONNECTED, states.poll(1, TimeUnit.MINUTES));
            h.check();
            LockInfo there = other.look("moves");
            assertEquals(h.fence(), there.fence());
            assertEquals("work", there.annotation());
            busy.unlock();
            waits.get(1, TimeUnit.MINUTES).unlock();
            h.unlock();
            assertTrue(lost.isEmpty());
        }
    }

    @Test
    void aDrainedReplicaIsLeftWithAllLocks() throws Exception {
        BlockingQueue<Status.State> states = new LinkedBlockingQueue<>();
        try (LockdForTests one = world.lockd(); LockdForTests two = world.lockd();
            LockdClient client = LockdClient.builder(one.address() + "," + two.address())
                .onStatus(s -> states.add(s.state())).build()) {
            Held h = client.lock("drained").acquire();
            one.stop();
            one.await();
            h.check();
            client.look("drained"); // at the other one
            h.unlock();
            assertFalse(states.contains(Status.State.DISCONNECTED));
        }
    }

    /** Counts, permits and bounds of what is held are known to the replica that goes on with it. */
    @Test
    void allThatIsKnownOfLocksMoves() throws Exception {
        try (LockdForTests one = world.lockd(); LockdForTests two = world.lockd();
            LockdClient client = LockdClient.connect(one.address() + "," + two.address());
            LockdClient other = LockdClient.connect(two.address())) {
            Held outer = client.lock("all/twice").holder("me").acquire();
            Held inner = client.lock("all/twice").holder("me").acquire();
            Held permits = client.lock("all/permits").semaphore(3, 4).acquire();
            Held some = client.lock("all/some").semaphore(3, 4).acquire();
            assertEquals(1, some.keepPermits(1));
            one.close();
            World.until("it goes on", () -> other.holds("").isEmpty() && client.holds("all").size() == 3);
            assertEquals(3, client.holds("all/permits").get(0).permits());
            assertEquals(1, client.holds("all/some").get(0).permits());
            inner.unlock();
            assertFalse(other.lock("all/twice").tryAcquire().isPresent());
            outer.unlock();
            other.lock("all/twice").tryAcquire().orElseThrow().unlock();
            assertFalse(other.lock("all/permits").semaphore(2, 4).tryAcquire().isPresent());
            assertFalse(other.lock("all/some").semaphore(4, 4).tryAcquire().isPresent());
            other.lock("all/some").semaphore(3, 4).tryAcquire().orElseThrow().unlock();
            permits.unlock();
            some.unlock();
        }
    }

    /** The replica that goes on with it ends it by itself: whoever hangs releases nothing. */
    @Test
    void theBoundOfAHoldMoves() throws Exception {
        Duration ttl = Duration.ofMinutes(2);
        try (LockdForTests one = world.lockd(); LockdForTests two = world.lockd();
            Proxy proxy = new Proxy(two.address());
            LockdClient client = LockdClient.builder(one.address() + "," + proxy.address()).sessionTtl(ttl).build();
            LockdClient other = LockdClient.connect(two.address())) {
            client.lock("moved").maxHold(Duration.ofSeconds(8)).acquire();
            one.close();
            World.until("it goes on", () -> client.holds("").size() == 1 && proxy.connections() > 0);
            proxy.cut(true);
            other.lock("moved").waitUpTo(ttl.dividedBy(2)).acquire().unlock();
        }
    }

    /** Nobody is told that a release did what it had no part in. */
    @Test
    void aLossBeforeTheReleaseWasSentIsTold() throws Exception {
        BlockingQueue<Status.State> states = new LinkedBlockingQueue<>();
        try (LockdForTests lockd = world.lockd(); Proxy proxy = new Proxy(lockd.address());
            LockdClient client = LockdClient.builder(proxy.address()).sessionTtl(Duration.ofMinutes(1))
                .answerTimeout(World.PATIENCE).onStatus(s -> states.add(s.state())).build();
            LockdClient operator = LockdClient.builder(lockd.address()).adminAddress(lockd.adminAddress()).build()) {
            Held h = client.lock("gone").acquire();
            proxy.cut(true);
            proxy.breakAll();
            World.until("the stream is gone", () -> states.contains(Status.State.INTERRUPTED));
            CompletableFuture<Void> unlocked = h.unlockAsync();
            assertTrue(operator.forceUnlock("gone", LockKind.EXCLUSIVE, "maintenance"));
            proxy.cut(false);
            Throwable why = assertThrows(ExecutionException.class, () -> unlocked.get(1, TimeUnit.MINUTES)).getCause();
            assertTrue(why instanceof LockNotHeldException, () -> "" + why);
        }
    }

    /** What has no answer when its stream ends may have been done: who asked is told so, and it is not done again. */
    @Test
    void nothingIsDoneTwice() throws Exception {
        try (LockdForTests lockd = world.lockd(); Proxy proxy = new Proxy(lockd.address());
            LockdClient client = LockdClient.builder(proxy.address()).releaseOnDisconnect().build();
            LockdClient moves = LockdClient.connect(proxy.address());
            LockdClient other = LockdClient.connect(lockd.address())) {
            client.lock("once").acquire().unlock();
            other.setLimit("once/permits", 3);
            assertEquals(3, moves.setLimit("once/permits", 4));
            proxy.loseAnswers();
            CompletableFuture<Object> tried = async(() -> client.lock("once").tryAcquire());
            CompletableFuture<Object> limited = async(() -> moves.setLimit("once/permits", 5));
            World.until("it was granted", () -> other.look("once").held());
            World.until("it was set", () -> other.look("once/permits").limit() == 5);
            proxy.breakAll();
            for (CompletableFuture<Object> asked : List.of(tried, limited)) {
                Throwable why = assertThrows(ExecutionException.class, () -> asked.get(1, TimeUnit.MINUTES)).getCause();
                assertTrue(why instanceof OutcomeUnknownException, () -> "" + why);
            }
            World.until("it is released", () -> !other.look("once").held());
        }
    }

    private static CompletableFuture<Object> async(Callable<Object> asked) {
        CompletableFuture<Object> answer = new CompletableFuture<>();
        new Thread(() -> {
            try {
                answer.complete(asked.call());
            } catch (Throwable e) {
                answer.completeExceptionally(e);
            }
        }).start();
        return answer;
    }

    /** It goes on elsewhere with what is left of its time. */
    @Test
    void aWaitThatMovesEndsInItsTime() throws Exception {
        try (LockdForTests lockd = world.lockd(); Proxy proxy = new Proxy(lockd.address());
            LockdClient client = LockdClient.builder(proxy.address()).answerTimeout(World.PATIENCE).build();
            LockdClient other = LockdClient.connect(lockd.address())) {
            Held busy = other.lock("busy").acquire();
            Duration wait = Duration.ofSeconds(10);
            long began = System.nanoTime();
            CompletableFuture<Object> waits = async(() -> client.lock("busy").waitUpTo(wait).acquire());
            Thread.sleep(6_000);
            proxy.breakAll();
            assertThrows(ExecutionException.class, () -> waits.get(1, TimeUnit.MINUTES));
            Duration took = Duration.ofNanos(System.nanoTime() - began);
            assertTrue(took.compareTo(wait) >= 0 && took.compareTo(wait.plusSeconds(5)) < 0, took::toString);
            busy.unlock();
        }
    }

    @Test
    void whoIsCutOffIsToldBeforeAnybodyElseIsGranted() throws Exception {
        try (LockdForTests lockd = world.lockd(); Proxy proxy = new Proxy(lockd.address());
            LockdClient client = LockdClient.builder(proxy.address()).sessionTtl(Duration.ofSeconds(4))
                .answerTimeout(Duration.ofSeconds(1)).build();
            LockdClient other = LockdClient.connect(lockd.address())) {
            Held h = client.lock("cut").acquire();
            CompletableFuture<LockLostException> lost = new CompletableFuture<>();
            h.onLost(lost::complete);
            CompletableFuture<Boolean> heldTwice = other.lock("cut").acquireAsync().thenApply(g -> h.isHeld());
            proxy.cut(true);
            assertFalse(heldTwice.get(1, TimeUnit.MINUTES));
            assertEquals(LostReason.DEADLINE_PASSED, lost.get(1, TimeUnit.MINUTES).lostReason());
            // A call that is bounded ends although nobody answers.
            assertThrows(LockdUnavailableException.class, () -> client.look("cut"));
            assertThrows(LockTimeoutException.class,
                () -> client.lock("free").waitUpTo(Duration.ofMillis(500)).acquire());
            proxy.cut(false);
            client.lock("free").acquire();
            assertThrows(LockLostException.class, h::unlock); // what is lost stays lost
        }
    }

    /** A tried lock whose answer is swallowed may have been granted. */
    @Test
    void aMissingAnswerIsAnUnknownOutcome() throws Exception {
        try (LockdForTests lockd = world.lockd(); Proxy proxy = new Proxy(lockd.address());
            LockdClient client = LockdClient.builder(proxy.address()).answerTimeout(Duration.ofMillis(800)).build();
            LockdClient other = LockdClient.connect(lockd.address())) {
            Held h = client.lock("silent").acquire();
            proxy.cut(true);
            assertThrows(OutcomeUnknownException.class, () -> client.lock("silent/2").tryAcquire());
            assertThrows(OutcomeUnknownException.class, h::makeAuto);
            assertThrows(OutcomeUnknownException.class, h::unlock);
            assertFalse(h.isHeld());
            proxy.cut(false);
            World.until("it is unlocked", () -> isUnlocked(h)); // waits for the same answer
            World.until("the late grant is released", () -> !other.look("silent/2").held());
        }
    }

    /** Whether an unlock is answered in time. */
    private static boolean isUnlocked(Held h) {
        try {
            h.unlock();
            return true;
        } catch (OutcomeUnknownException e) {
            return false;
        }
    }

    @Test
    void aProcessThatStoodStillLearnsOfTheLossFirst() throws Exception {
        try (LockdForTests lockd = world.lockd()) {
            Process p = new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-XX:TieredStopAtLevel=1",
                "-cp",
                System.getProperty("java.class.path"), Sleeper.class.getName(), lockd.address())
                .redirectError(ProcessBuilder.Redirect.INHERIT) // new JDKs warn of what they will not allow for ever
                .start();
            try (BufferedReader out = new BufferedReader(new InputStreamReader(p.getInputStream()))) {
                assertEquals("held", out.readLine());
                World.signal("STOP", p.pid());
                try (LockdClient other = LockdClient.connect(lockd.address())) {
                    other.lock("stopped").acquire(); // when its lease has ended
                    Thread.sleep(1000); // so that it sees for how long it stood still
                }
                World.signal("CONT", p.pid());
                assertEquals("lost", out.readLine());
            } finally {
                p.destroyForcibly().waitFor();
            }
        }
    }

    /** A program that asks all the time whether it holds a lock, and says the first time that it does not. */
    static final class Sleeper {
        private Sleeper() { }

        public static void main(String[] args) throws Exception {
            LockdClient client = LockdClient.builder(args[0]).sessionTtl(Duration.ofSeconds(3)).build();
            Held h = client.lock("stopped").acquire();
            System.out.println("held");
            long last = System.nanoTime();
            for (;;) {
                long asks = System.nanoTime();
                boolean held = h.isHeld();
                // it stood still before it asked, and was told that it holds
                if (held && asks - last > 3_200_000_000L) {
                    System.out.println("it says that it is held");
                }
                if (!held) {
                    System.out.println("lost");
                    System.exit(0);
                }
                last = asks;
                Thread.sleep(1); // where it is stopped, as a rule
            }
        }
    }
}
