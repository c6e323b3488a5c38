package io.lockd.client.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The thread of a client, and its timer of many bounds. */
@Timeout(value = 2, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class LoopTest {
    private final Loop loop = new Loop("lockd-loop");

    @AfterEach
    void end() {
        loop.end();
        loop.awaitEnd();
    }

    /** One that slept on would need a second for each. */
    @Test
    void whateverItIsAskedWakesIt() throws Exception {
        int threads = 4;
        CountDownLatch all = new CountDownLatch(threads);
        for (int i = 0; i < threads; i++) {
            new Thread(() -> {
                Semaphore done = new Semaphore(0);
                for (int n = 0; n < 1_000; n++) {
                    loop.execute(done::release);
                    done.acquireUninterruptibly();
                }
                all.countDown();
            }).start();
        }
        all.await();
    }

    @Test
    void theEndOfATurnIsAfterAllThatItWasAsked() throws Exception {
        List<String> done = new ArrayList<>();
        CountDownLatch all = new CountDownLatch(1);
        loop.execute(() -> {
            loop.atEndOfTurn(() -> {
                done.add("last");
                all.countDown();
            });
            loop.execute(() -> {
                done.add("first");
                loop.execute(() -> done.add("second"));
            });
        });
        all.await();
        assertEquals(List.of("first", "second", "last"), done);
    }

    /** One timer serves all, and a cancelled one keeps nobody. */
    @Test
    void eachBoundIsRungOnceInItsTurn() throws Exception {
        CountDownLatch all = new CountDownLatch(1);
        List<String> rung = new ArrayList<>();
        long began = System.nanoTime();
        loop.execute(() -> {
            Bounds bounds = new Bounds(loop, 50_000_000L);
            Bounds.Bound cancelled = bounds.begin(() -> rung.add("cancelled"));
            bounds.begin(() -> {
                rung.add("first");
                bounds.begin(() -> {
                    rung.add("third");
                    all.countDown();
                });
            });
            Bounds.Bound last = bounds.begin(() -> rung.add("last"));
            bounds.begin(() -> rung.add("second"));
            cancelled.cancel();
            last.cancel();
            last.cancel();
        });
        all.await();
        assertTrue(System.nanoTime() - began >= 100_000_000L);
        assertEquals(List.of("first", "second", "third"), rung);
    }
}
