package io.lockd.spring;

import io.lockd.client.LockdClient;
import io.lockd.client.LockdException;
import io.lockd.client.Status;
import java.util.Optional;
import org.springframework.boot.health.contributor.AbstractHealthIndicator;
import org.springframework.boot.health.contributor.Health;

/**
 * Is up while the client has a session with lockd whose locks can be renewed. A probe asks nobody: lockd is asked once,
 * when the program starts, so that the client connects; from then on the client is told, and goes on trying by itself.
 */
final class LockdHealthIndicator extends AbstractHealthIndicator {
    private final LockdConnection connection;
    private volatile LockdException failed;

    LockdHealthIndicator(LockdConnection connection) {
        this.connection = connection;
    }

    /** Has the client connect, without waiting for it. */
    LockdHealthIndicator connect(LockdClient client) {
        Thread asks = new Thread(() -> {
            try {
                client.look("health");
            } catch (LockdException e) {
                failed = e; // counts only if there was no connection: one that has no right to look is connected
            }
        }, "lockd-health");
        asks.setDaemon(true);
        asks.start();
        return this;
    }

    @Override
    protected void doHealthCheck(Health.Builder health) {
        Optional<Status> last = connection.last();
        if (last.isPresent()) {
            told(last.get(), health);
        } else if (failed == null) {
            health.unknown().withDetail("state", "CONNECTING");
        } else {
            health.down(failed).withDetail("reason", failed.reason());
        }
    }

    private static void told(Status s, Health.Builder health) {
        switch (s.state()) {
            case CONNECTED, SAFE, DRAINING -> health.up();
            default -> health.down();
        }
        health.withDetail("state", s.state());
        if (!s.why().isEmpty()) {
            health.withDetail("why", s.why());
        }
    }
}
