package io.lockd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockd.client.testing.LockdForTests;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** Every call that has a bound keeps it, however slow or silent the server is, and so does close. All of it waits, side by side. */
@Execution(ExecutionMode.CONCURRENT)
@Timeout(value = 5, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class BoundsTest {
    private static final Duration ANSWER = Duration.ofMillis(800);
    private static final Duration CLOSE = Duration.ofSeconds(2);
    /** What a busy machine may add. */
    private static final Duration SLACK = Duration.ofSeconds(8);

    private static World world;

    @BeforeAll
    static void start() throws Exception {
        world = new World();
    }

    @AfterAll
    static void end() throws Exception {
        world.close();
    }

    private interface Use {
        void run() throws Exception;
    }

    /** Something that takes no longer than its bound. It may fail, as what has no answer does. */
    private static void within(String what, Duration bound, Use use) throws Exception {
        long began = System.nanoTime();
        try {
            use.run();
        } catch (LockdException e) {
            // it has no answer
        }
        Duration took = Duration.ofNanos(System.nanoTime() - began);
        assertTrue(took.compareTo(bound.plus(SLACK)) < 0, () -> what + " took " + took);
    }

    /** All calls that are bounded, and then close. held was granted before. */
    private static void allKeepTheirBounds(LockdClient client, Held... held) throws Exception {
        Duration wait = Duration.ofMillis(300);
        within("try", ANSWER, () -> client.lock("try").tryAcquire());
        within("wait", wait.plus(ANSWER), () -> client.lock("wait").waitUpTo(wait).acquire());
        within("wait for all", wait.plus(ANSWER), () -> client.lockAll("a", "b").waitUpTo(wait).acquire());
        within("future", wait.plus(ANSWER), () -> {
            try {
                client.lock("async").waitUpTo(wait).acquireAsync().get();
            } catch (java.util.concurrent.ExecutionException e) {
                throw (LockdException) e.getCause();
            }
        });
        Lock lock = client.locks().getLock("of threads");
        within("tryLock", ANSWER, lock::tryLock);
        within("tryLock with a time", wait.plus(ANSWER), () -> lock.tryLock(wait.toMillis(), TimeUnit.MILLISECONDS));
        within("look", ANSWER, () -> client.look("look"));
        within("holds", ANSWER, () -> client.holds(""));
        within("set a limit", ANSWER, () -> client.setLimit("limit", 3));
        within("watch", ANSWER, () -> client.watch("watch", e -> { }));
        within("take a lease", ANSWER, () -> client.leases().tryAcquire("lease", Duration.ofMinutes(1), ""));
        for (Held h : held) {
            within("extend", ANSWER, () -> h.makeFixed(Duration.ofMinutes(1)));
            within("unlock", ANSWER, h::unlock);
        }
        within("close", CLOSE, client::close);
    }

    @Test
    void aServerThatAcceptsAndNeverSpeaks() throws Exception {
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            allKeepTheirBounds(client("127.0.0.1:" + silent.getLocalPort()));
        }
    }

    @Test
    void aServerThatStopsReading() throws Exception {
        try (LockdForTests lockd = world.lockd(); Proxy proxy = new Proxy(lockd.address())) {
            LockdClient client = client(proxy.address());
            Held held = client.lock("stops").acquire();
            proxy.cut(true);
            allKeepTheirBounds(client, held);
        }
    }

    /** The server was left alone by its side of the connection; nothing tells the client. */
    @Test
    void aServerWhoseAnswersAreLost() throws Exception {
        try (LockdForTests lockd = world.lockd(); Proxy proxy = new Proxy(lockd.address())) {
            LockdClient client = client(proxy.address());
            Held held = client.lock("lost answers").acquire();
            proxy.loseAnswers();
            allKeepTheirBounds(client, held);
        }
    }

    @Test
    void aServerThatStandsStill() throws Exception {
        try (LockdForTests lockd = world.lockd()) {
            LockdClient client = client(lockd.address());
            Held held = client.lock("stands still").acquire();
            World.signal("STOP", lockd.pid());
            try {
                allKeepTheirBounds(client, held);
            } finally {
                World.signal("CONT", lockd.pid());
            }
        }
    }

    /** Far away everything works, and takes its time; a short TTL as well. */
    @Test
    void aServerFarAway() throws Exception {
        Duration ttl = Duration.ofSeconds(9);
        BlockingQueue<Status.State> states = new LinkedBlockingQueue<>();
        try (LockdForTests lockd = world.lockd(); Proxy proxy = new Proxy(lockd.address())) {
            proxy.far(Duration.ofMillis(400));
            LockdClient client = LockdClient.builder(proxy.address()).answerTimeout(World.PATIENCE)
                .onStatus(s -> states.add(s.state())).build();
            LockdClient quick = client.withTtl(ttl);
            List<Held> held = new ArrayList<>();
            for (LockdClient c : List.of(client, quick)) {
                held.add(c.lock("far of " + c.sessionTtl()).waitUpTo(World.PATIENCE).acquire());
                assertEquals(1, c.holds("far").size());
                assertTrue(c.look("far of " + c.sessionTtl()).held());
            }
            World.awaitRenewal(held.get(1), ttl); // as the answers tell in time
            held.get(0).check();
            held.get(1).check();
            held.get(1).unlock();
            assertThrows(LockNotHeldException.class, held.get(1)::unlock);
            within("close", CLOSE, client::close);
            assertTrue(!states.contains(Status.State.DISCONNECTED), states::toString);
        }
    }

    private static LockdClient client(String address) {
        return LockdClient.builder(address).answerTimeout(ANSWER).build();
    }
}
