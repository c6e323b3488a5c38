package io.lockd.spring;

import io.lockd.client.AccessDeniedException;
import io.lockd.client.LockdClient;
import io.lockd.client.LockdException;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;

/** Is up if lockd, and the store behind it, answer within the client's answer timeout. */
final class LockdHealthIndicator implements HealthIndicator {
    private static final String NAME = "health";

    private final LockdClient client;

    LockdHealthIndicator(LockdClient client) {
        this.client = client;
    }

    @Override
    public Health health() {
        try {
            client.look(NAME);
            return Health.up().build();
        } catch (AccessDeniedException e) {
            // Who may not look at this name is known to a server that lives.
            return e.reason().equals("FORBIDDEN") ? Health.up().build() : Health.down(e).build();
        } catch (LockdException e) {
            return Health.down(e).withDetail("reason", e.reason()).build();
        }
    }
}
