package io.lockd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/**
 * What a client says to a server that does a certain thing. The servers note it, and tell it to whoever looks at
 * "verdict". The property lockd.scripts names them, see test/hostile/scripts.go.
 */
class ScriptTest {
    private final Map<String, String> servers = World.servers("lockd.scripts");

    private static String verdict(LockdClient client) {
        return client.look("verdict").annotation();
    }

    private LockdClientBuilder client(String... names) {
        StringBuilder addresses = new StringBuilder();
        for (String name : names) {
            addresses.append(addresses.length() == 0 ? "" : ",").append(servers.get(name));
        }
        return LockdClient.builder(addresses.toString()).answerTimeout(World.PATIENCE);
    }

    /** What is being released must not be held once more, and what was taken under a former id is to be undone. */
    @Test
    void whatHadNoAnswerIsAskedAgain() throws Exception {
        try (LockdClient client = client("breaks while it is asked").build()) {
            Held held = client.lock("held").acquire();
            CompletableFuture<Held> again = client.lock("again").acquireAsync();
            CompletableFuture<Void> released = held.unlockAsync();
            client.look("job"); // when it is answered the stream was another one
            again.get(1, TimeUnit.MINUTES);
            released.get(1, TimeUnit.MINUTES);
            assertTrue(verdict(client).endsWith("; held is released; again is asked for in place of its former request"),
                () -> verdict(client));
        }
    }

    /** The server may be renewing it all the while, and nobody else could have it. */
    @Test
    void whatIsLostByItsDeadlineIsReleased() throws Exception {
        try (LockdClient client = client("grants for a moment").build()) {
            Held rings = client.lock("rings").acquire();
            Held asked = client.lock("asked").acquire();
            while (asked.isHeld()) {
                Thread.onSpinWait();
            }
            World.until("both are released", () -> verdict(client).contains("rings is released")
                && verdict(client).contains("asked is released"));
            assertFalse(rings.isHeld());
        }
    }

    /** It goes on where it was when nobody else takes it. Until then what is said to it there waits at the server. */
    @Test
    void littleIsKeptOfWhatIsSaidWhileASessionLooksForAnotherStream() throws Exception {
        try (LockdClient client = client("is to be left", "refuses who would go on").build()) {
            Held held = client.lock("held").acquire(); // without it the session would end by itself
            client.look("leave");
            World.until("it could not leave", () -> verdict(client).contains("refused"));
            assertFalse(verdict(client).contains("taken"), () -> verdict(client));
            held.check();
        }
    }

    /** What it asks for after that is for the next session: this one has ended, and a try would have no answer. */
    @Test
    void whoStoodStillLooksAtTheClockBeforeAnythingIsSent() throws Exception {
        Duration longer = Duration.ofMillis(1_300); // than the session TTL
        AtomicBoolean stands = new AtomicBoolean(true);
        CountDownLatch standing = new CountDownLatch(1);
        LockdClientBuilder builder = client("hears nothing for a time").executor(task -> { // it is the client's thread
            task.run();
            if (stands.getAndSet(false)) {
                standing.countDown();
                sleep(longer);
            }
        });
        try (LockdClient client = builder.build()) {
            Held first = client.lock("first").acquireAsync().get(1, TimeUnit.MINUTES);
            standing.await();
            client.lock("second").tryAcquire().orElseThrow();
            assertFalse(first.isHeld());
            assertEquals("second is asked for in the same stream: false", verdict(client));
        }
    }

    private static void sleep(Duration time) {
        try {
            Thread.sleep(time.toMillis());
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
