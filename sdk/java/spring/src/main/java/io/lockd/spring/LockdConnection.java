package io.lockd.spring;

import io.lockd.client.Status;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What the client was last told of its relation with lockd. A {@link io.lockd.client.LockdClient} that the program
 * makes itself tells it with {@code builder.onStatus(connection::told)}.
 */
public final class LockdConnection {
    private final Map<Duration, Status> ofTtl = new ConcurrentHashMap<>();
    private volatile Status last;

    /** Is for {@code onStatus} of the client's builder. */
    public void told(Status status) {
        ofTtl.put(status.ttl(), status);
        last = status;
    }

    /** What was told last of the session of a TTL. */
    Optional<Status> last(Duration ttl) {
        return Optional.ofNullable(ofTtl.get(ttl));
    }

    /** Empty until the first connection was made. */
    public Optional<Status> last() {
        return Optional.ofNullable(last);
    }
}
