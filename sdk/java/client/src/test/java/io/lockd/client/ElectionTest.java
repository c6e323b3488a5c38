package io.lockd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockd.client.testing.LockdForTests;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;

/** One leads at a time, and others are told who. */
class ElectionTest {
    @Test
    void observersAreToldWhoLeads() throws Exception {
        BlockingQueue<Leader> told = new LinkedBlockingQueue<>();
        try (LockdForTests lockd = LockdForTests.start(World.LOCKD);
            LockdClient client = LockdClient.builder(lockd.address()).name("candidate").build();
            LockdClient other = LockdClient.connect(lockd.address());
            Watch w = other.election("jobs").observe(told::add)) {
            awaits(told, Leader::vacant);
            Term first = client.election("jobs").campaign("a~1", "of Monday");
            Leader leads = awaits(told, l -> l.id().equals("a~1"));
            assertEquals("of Monday", leads.annotation());
            assertEquals(first.fence(), leads.fence());
            CompletableFuture<Term> second = CompletableFuture.supplyAsync(() -> campaign(client));
            first.resign();
            assertThrows(LockNotHeldException.class, first::check);
            Term next = second.get(1, TimeUnit.MINUTES);
            assertTrue(next.fence() > first.fence());
            assertEquals(next.fence(), awaits(told, l -> l.id().equals("b")).fence());
            assertThrows(LockTimeoutException.class,
                () -> client.election("jobs").campaign("c", "", Duration.ofMillis(50)));
            next.close();
        }
    }

    /** What is told, after others: the server may not answer for a while, or nobody lead for a moment. */
    private static Leader awaits(BlockingQueue<Leader> told, Predicate<Leader> wanted) throws InterruptedException {
        for (;;) {
            Leader l = told.poll(1, TimeUnit.MINUTES);
            if (wanted.test(l)) {
                return l;
            }
        }
    }

    private static Term campaign(LockdClient client) {
        try {
            return client.election("jobs").campaign("b");
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
