package io.lockd.client;

/**
 * A lock that this client's session holds, as the server tells it. The {@link Held} itself knows better.
 *
 * @param name the lock
 * @param kind how it is locked
 * @param holder who holds it in the session
 * @param fence the fence
 * @param count how often the holder holds it
 * @param renewed whether the lease is renewed
 * @param permits of a semaphore, how many
 */
public record HoldInfo(String name, LockKind kind, String holder, long fence, int count, boolean renewed,
    int permits) { }
