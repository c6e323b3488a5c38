package io.lockd.spring;

import io.lockd.client.LockdClient;
import io.lockd.client.LockdException;
import io.lockd.client.Status;
import java.util.Optional;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;

/**
 * Is up while the client has a session with lockd whose locks can be renewed. A probe asks nobody: lockd is asked once,
 * when the program starts, so that the client connects; from then on the client is told, and goes on trying by itself.
 * Sessions of {@link LockdClient#withTtl} do not count: who uses one is told by its locks.
 */
final class LockdHealthIndicator implements HealthIndicator {
    private final LockdConnection connection;
    private final LockdClient client;
    private volatile LockdException failed;

    LockdHealthIndicator(LockdConnection connection, LockdClient client) {
        this.connection = connection;
        this.client = client;
    }

    /** Has the client connect, without waiting for it. */
    LockdHealthIndicator connect() {
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
    public Health health() {
        Optional<Status> last = connection.last(client.sessionTtl());
        if (last.isPresent()) {
            return told(last.get());
        }
        return failed == null ? Health.unknown().withDetail("state", "CONNECTING").build()
            : Health.down(failed).withDetail("reason", failed.reason()).build();
    }

    private static Health told(Status s) {
        Health.Builder health = switch (s.state()) {
            case CONNECTED, SAFE, DRAINING -> Health.up();
            default -> Health.down();
        };
        if (!s.why().isEmpty()) {
            health.withDetail("why", s.why());
        }
        return health.withDetail("state", s.state()).build();
    }
}
