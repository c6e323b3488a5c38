package io.lockd.spring;

import io.lockd.client.Status;
import java.util.Optional;

/**
 * What the client was last told of its relation with lockd. A {@link io.lockd.client.LockdClient} that the program
 * makes itself tells it with {@code builder.onStatus(connection::told)}.
 */
public final class LockdConnection {
    private volatile Status last;

    /** Is for {@code onStatus} of the client's builder. */
    public void told(Status status) {
        last = status;
    }

    /** Empty until the first connection was made. */
    public Optional<Status> last() {
        return Optional.ofNullable(last);
    }
}
