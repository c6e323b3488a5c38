package io.lockd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockd.client.testing.LockdForTests;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** What a handle promises while all is well. */
class HandleTest {
    private static World world;
    private static LockdForTests lockd;
    private static LockdClient client;

    @BeforeAll
    static void start() throws Exception {
        world = new World();
        lockd = world.lockd();
        client = LockdClient.builder(lockd.address()).name("handles").sessionTtl(Duration.ofSeconds(20))
            .adminAddress(lockd.adminAddress()).build();
    }

    @AfterAll
    static void end() throws Exception {
        client.close();
        lockd.close();
        world.close();
    }

    @Test
    void isRenewedUntilItIsUnlocked() throws Exception {
        Duration ttl = Duration.ofSeconds(7);
        long fence;
        try (Held h = client.withTtl(ttl).lock("renewed").acquire()) {
            fence = h.fence();
            assertEquals("renewed", h.name());
            for (int i = 0; i < 2; i++) {
                World.awaitRenewal(h, ttl);
                assertTrue(h.remaining().compareTo(ttl) < 0, h.remaining()::toString);
            }
            assertFalse(client.lock("renewed").tryAcquire().isPresent());
            LockHeldException busy = assertThrows(LockHeldException.class,
                () -> client.lock("renewed").waitUpTo(Duration.ZERO).acquire());
            assertEquals("handles", busy.client());
        }
        assertFalse(client.look("renewed").held());
        Held again = client.lock("renewed").tryAcquire().orElseThrow();
        assertTrue(again.fence() > fence);
        again.unlock();
        assertFalse(again.isHeld());
        assertThrows(LockNotHeldException.class, again::unlock);
        assertThrows(LockNotHeldException.class, again::check);
        again.close(); // nothing to do
    }

    @Test
    void whatOthersWriteIsEscapedWhereItIsShown() {
        HolderInfo by = new HolderInfo("n", "s:h", "bil\nling", "nightly", "10.0.0.7:1", Duration.ofSeconds(12));
        assertEquals("bil\\u{a}ling (nightly) from 10.0.0.7:1 for 12 s", by.who());
        assertEquals("", new HolderInfo("n", "", "", "", "", Duration.ZERO).who());
    }

    @Test
    void tellsWhoReleasedItByForce() throws Exception {
        BlockingQueue<LockLostException> told = new LinkedBlockingQueue<>();
        Held h = client.lock("forced").acquire();
        h.onLost(told::add);
        assertTrue(client.forceUnlock("forced", LockKind.EXCLUSIVE, "maintenance"));
        LockLostException lost = told.poll(1, TimeUnit.MINUTES);
        assertEquals(LostReason.FORCED, lost.lostReason());
        assertEquals("maintenance", lost.why());
        assertFalse(h.isHeld());
        assertEquals(Duration.ZERO, h.remaining());
        assertThrows(LockLostException.class, h::check);
        assertThrows(LockLostException.class, h::close);
        h.onLost(told::add); // at once, as it is lost already
        assertEquals(LostReason.FORCED, told.poll(1, TimeUnit.MINUTES).lostReason());
    }

    @Test
    void aFixedLeaseEndsWhenItIsOver() throws Exception {
        BlockingQueue<LockLostException> told = new LinkedBlockingQueue<>();
        Held h = client.lock("fixed").lease(Duration.ofSeconds(30)).acquire();
        h.onLost(told::add);
        h.extend(Duration.ofSeconds(60));
        assertTrue(h.remaining().compareTo(Duration.ofSeconds(50)) > 0, h.remaining()::toString);
        h.makeAuto();
        assertEquals("LEASE_IS_AUTO", assertThrows(LockdException.class, () -> h.extend(Duration.ofSeconds(9)))
            .reason());
        h.shorten(Duration.ofSeconds(4));
        assertTrue(h.remaining().compareTo(Duration.ofSeconds(5)) < 0, h.remaining()::toString);
        assertTrue(told.poll(1, TimeUnit.MINUTES) != null);
        assertThrows(LockLostException.class, h::unlock);
        World.until("the name is free", () -> !client.look("fixed").held());
    }

    @Test
    void whoHangsDoesNotKeepItForEver() throws Exception {
        BlockingQueue<LockLostException> told = new LinkedBlockingQueue<>();
        try (LockdClient other = LockdClient.connect(lockd.address())) {
            Held h = other.lock("hangs").maxHold(Duration.ofMillis(1500)).acquire().onLost(told::add);
            assertTrue(h.remaining().compareTo(Duration.ofMillis(1500)) <= 0, h.remaining()::toString);
            LockLostException lost = told.poll(1, TimeUnit.MINUTES);
            assertEquals(LostReason.EXPIRED, lost.lostReason());
            assertTrue(lost.maxHold());
            assertFalse(h.isHeld());
            World.until("the name is free", () -> !client.look("hangs").held());
        }
    }

    @Test
    void kindsShareAsTheyShould() throws Exception {
        try (Held one = client.lock("rw").read().acquire(); Held two = client.lock("rw").read().acquire()) {
            assertTrue(one.isHeld() && two.isHeld());
            assertFalse(client.lock("rw").write().tryAcquire().isPresent());
        }
        try (Held w = client.lock("rw").write().holder("me").acquire(); Held r = client.lock("rw").read().holder("me")
            .acquire()) {
            assertTrue(r.isHeld());
            assertEquals(LockKind.WRITE, w.kind());
        }
        try (Held three = client.lock("sem").semaphore(3, 4).acquire()) {
            assertFalse(client.lock("sem").semaphore(2, 4).tryAcquire().isPresent());
            assertEquals(2, three.keepPermits(2));
            client.lock("sem").semaphore(2, 4).tryAcquire().orElseThrow().unlock();
            assertEquals(4, client.setLimit("sem", 5));
        }
        try (Held a = client.lock("re").holder("me").acquire(); Held b = client.lock("re").holder("me").acquire()) {
            assertEquals(a.fence(), b.fence());
            assertEquals(List.of(2), client.holds("re").stream().map(HoldInfo::count).collect(Collectors.toList()));
        }
    }

    @Test
    void severalAreTakenTogether() throws Exception {
        try (Held b = client.lock("several/b").acquire()) {
            Optional<HeldAll> none = client.lockAll("several/a", "several/b").tryAcquire();
            assertFalse(none.isPresent());
            assertFalse(client.look("several/a").held());
        }
        HeldAll all = client.lockAll(List.of(LockItem.of("several/a"), LockItem.semaphore("several/s", 1, 2)))
            .acquire();
        assertEquals(2, all.all().size());
        all.all().get(0).unlock();
        assertFalse(all.isHeld());
        all.unlock(); // passes over the first
        assertFalse(client.look("several/s").held());
    }

    @Test
    void aFutureIsGrantedInItsTurn() throws Exception {
        BlockingQueue<Integer> ahead = new LinkedBlockingQueue<>();
        Held first = client.lock("async").acquire();
        CompletableFuture<Held> second = client.lock("async").onQueued(ahead::add).acquireAsync();
        assertEquals(0, ahead.poll(1, TimeUnit.MINUTES));
        first.unlockAsync().get(1, TimeUnit.MINUTES);
        Held h = second.get(1, TimeUnit.MINUTES);
        assertTrue(h.fence() > first.fence());
        h.unlock();
    }

    @Test
    void watchesTellEachEnd() throws Exception {
        BlockingQueue<Unlocked> ends = new LinkedBlockingQueue<>();
        try (Watch w = client.watch("watched", ends::add)) {
            Held h = client.lock("watched").acquire();
            h.unlock();
            Unlocked u = ends.poll(1, TimeUnit.MINUTES);
            assertEquals(h.fence(), u.fence());
            assertEquals("RELEASED", u.cause());
        }
    }

    @Test
    void refusesWhatNoServerTakes() {
        assertEquals("INVALID_NAME", assertThrows(LockdException.class, () -> client.lock("").acquire()).reason());
        assertEquals("INVALID_NAME", assertThrows(LockdException.class, () -> client.lock("\ud800").acquire())
            .reason());
        assertThrows(IllegalArgumentException.class, () -> LockdClient.connect("host:port"));
    }
}
