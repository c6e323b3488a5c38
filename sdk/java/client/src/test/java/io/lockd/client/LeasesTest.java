package io.lockd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockd.client.testing.LockdForTests;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Leases without a session, and what is known of them when an answer is lost. */
class LeasesTest {
    private static final Duration LONG = Duration.ofMinutes(10);

    private static World world;
    private static LockdForTests lockd;
    private static LockdClient client;

    @BeforeAll
    static void start() throws Exception {
        world = new World();
        lockd = world.lockd();
        client = LockdClient.builder(lockd.address()).answerTimeout(World.PATIENCE).build();
    }

    @AfterAll
    static void end() throws Exception {
        client.close();
        lockd.close();
        world.close();
    }

    /** Addresses where nobody is. */
    private static List<String> nobody(int count) throws Exception {
        List<String> all = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                all.add("127.0.0.1:" + free.getLocalPort());
            }
        }
        return all;
    }

    private static LockdClient at(Duration answer, List<String> addresses) {
        return LockdClient.builder(String.join(",", addresses)).answerTimeout(answer).build();
    }

    @Test
    void isTakenExtendedAndReleased() {
        Leases.Lease lease = client.leases().tryAcquire("plain", LONG, "by hand").orElseThrow();
        assertTrue(lease.fence() > 0);
        assertFalse(client.leases().tryAcquire("plain", LONG, "").isPresent());
        lease.extend(LONG.multipliedBy(2), false);
        assertTrue(client.look("plain").ttl().compareTo(LONG) > 0);
        lease.release();
        assertFalse(client.look("plain").held());
        assertThrows(LockNotHeldException.class, lease::release);
    }

    @Test
    void eachAddressIsTried() throws Exception {
        List<String> addresses = nobody(4);
        addresses.add(lockd.address());
        try (LockdClient c = at(World.PATIENCE, addresses)) {
            c.leases().tryAcquire("last address", LONG, "").orElseThrow().release();
        }
        assertFalse(client.look("last address").held());
    }

    @Test
    void whereNobodyIsNothingWasDone() throws Exception {
        try (LockdClient c = at(World.PATIENCE, nobody(2))) {
            assertThrows(LockdUnavailableException.class, () -> c.leases().tryAcquire("nobody", LONG, ""));
        }
    }

    /** The answer is lost at the first address, and the second one tells what became of it. */
    @Test
    void aLostAnswerIsAskedForElsewhere() throws Exception {
        try (Proxy proxy = new Proxy(lockd.address());
             LockdClient c = at(Duration.ofSeconds(9), List.of(proxy.address(), lockd.address()))) {
            Leases leases = c.leases();
            Leases.Lease first = leases.tryAcquire("first", LONG, "").orElseThrow();
            proxy.loseAnswers();
            first.release(); // the first try did that
            assertFalse(client.look("first").held());
        }
    }

    @Test
    void aConnectionThatBreaksLeavesTheOutcomeUnknown() throws Exception {
        try (Proxy proxy = new Proxy(lockd.address());
             LockdClient c = at(World.PATIENCE.multipliedBy(3), List.of(proxy.address()))) {
            Leases.Lease lease = c.leases().tryAcquire("broken", LONG, "").orElseThrow();
            proxy.cut(true);
            CompletableFuture<Void> release = CompletableFuture.runAsync(lease::release);
            World.until("the request is under way", proxy::kept);
            proxy.close();
            Throwable why = assertThrows(ExecutionException.class,
                () -> release.get(World.PATIENCE.toSeconds(), TimeUnit.SECONDS)).getCause();
            assertInstanceOf(OutcomeUnknownException.class, why, () -> "" + why);
            assertEquals("OUTCOME_UNKNOWN", ((LockdException) why).reason());
        }
    }

    @Test
    void whatMayHaveBeenTakenIsReleased() throws Exception {
        try (Proxy proxy = new Proxy(lockd.address());
             LockdClient c = at(Duration.ofSeconds(3), List.of(proxy.address()))) {
            c.leases().tryAcquire("warm", LONG, "");
            proxy.loseAnswers();
            assertThrows(OutcomeUnknownException.class, () -> c.leases().tryAcquire("taken", LONG, ""));
            World.until("it was released", () -> !client.look("taken").held());
        }
    }
}
