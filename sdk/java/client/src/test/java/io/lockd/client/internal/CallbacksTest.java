package io.lockd.client.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Functions of the program are called in order, and one that does not return stops only itself. */
class CallbacksTest {
    private static final long PATIENCE_SECONDS = 60;

    private final BlockingQueue<String> called = new LinkedBlockingQueue<>();
    private final CountDownLatch ever = new CountDownLatch(1);

    private String next() throws InterruptedException {
        return called.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
    }

    private void hang() {
        try {
            ever.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static long threads(String name) {
        return Thread.getAllStackTraces().keySet().stream().filter(t -> t.getName().equals(name)).count();
    }

    @Test
    void theyAreCalledInOrderByOneThread() throws Exception {
        Callbacks c = new Callbacks("lockd-order", TimeUnit.SECONDS.toMillis(PATIENCE_SECONDS)); // none is stuck
        List<String> want = new ArrayList<>();
        Callbacks.Line line = new Callbacks.Line();
        for (int i = 0; i < 200; i++) {
            String n = "" + i;
            want.add(n);
            c.execute(i % 2 == 0 ? line : null, () -> called.add(n));
        }
        List<String> got = new ArrayList<>();
        for (int i = 0; i < want.size(); i++) {
            got.add(next());
        }
        assertEquals(want, got);
        assertTrue(threads("lockd-order") <= 1);
        c.end();
    }

    @Test
    void oneThatDoesNotReturnStopsOnlyItself() throws Exception {
        Callbacks c = new Callbacks("lockd-stuck");
        Callbacks.Line line = new Callbacks.Line();
        c.execute(line, this::hang);
        c.execute(line, () -> called.add("the same"));
        c.execute(() -> called.add("another"));
        assertEquals("another", next());
        c.execute(line, () -> called.add("the same again"));
        c.execute(() -> called.add("one more"));
        assertEquals("one more", next());
        ever.countDown();
        assertEquals("the same", next());
        assertEquals("the same again", next());
        c.end();
    }

    @Test
    void theThreadsAreBounded() throws Exception {
        long stuck = 50;
        Callbacks c = new Callbacks("lockd-many", stuck);
        IntStream.range(0, 3 * Callbacks.MOST_STUCK).forEach(i -> c.execute(this::hang));
        long most = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        while (threads("lockd-many") <= Callbacks.MOST_STUCK && System.nanoTime() < most) {
            Thread.sleep(20);
        }
        Thread.sleep(10 * stuck);
        assertEquals(Callbacks.MOST_STUCK + 1, threads("lockd-many"));
        c.execute(() -> called.add("the last"));
        ever.countDown();
        assertEquals("the last", next());
        c.end();
    }

    @Test
    void whatOneThrowsIsNoMatterToTheNext() throws Exception {
        Callbacks c = new Callbacks("lockd-throws");
        c.execute(() -> Thread.currentThread().setUncaughtExceptionHandler((t, e) -> called.add(e.getMessage())));
        c.execute(() -> {
            throw new IllegalStateException("thrown");
        });
        c.execute(() -> called.add("next"));
        assertEquals("thrown", next());
        assertEquals("next", next());
        c.end();
    }

    @Test
    void afterTheEndWhatWasAskedForIsCalled() throws Exception {
        Callbacks c = new Callbacks("lockd-end");
        Callbacks other = new Callbacks(c);
        CountDownLatch begins = new CountDownLatch(1);
        c.execute(() -> {
            begins.countDown();
            hang();
        });
        begins.await();
        c.execute(() -> called.add("asked for"));
        c.end();
        c.execute(() -> called.add("too late"));
        other.execute(() -> called.add("too late"));
        other.executeOrRun(() -> called.add("here"));
        assertEquals("here", next());
        ever.countDown();
        assertEquals("asked for", next());
        for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS); threads("lockd-end") > 0;) {
            assertFalse(System.nanoTime() > end);
            Thread.sleep(5);
        }
        assertTrue(called.isEmpty());
    }
}
