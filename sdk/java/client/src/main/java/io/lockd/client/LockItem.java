package io.lockd.client;

/**
 * One of several locks. No name may come twice.
 *
 * @param name the lock
 * @param kind how it is locked; null: as the request says for all
 * @param permits of a semaphore, how many; 0 is 1
 * @param limit of a semaphore, how many there are; 0 is whatever was set
 */
public record LockItem(String name, LockKind kind, int permits, int limit) {
    /** A lock of the kind that the request asks for. */
    public static LockItem of(String name) {
        return new LockItem(name, null, 0, 0);
    }

    /** A lock of a kind. */
    public static LockItem of(String name, LockKind kind) {
        return new LockItem(name, kind, 0, 0);
    }

    /** Permits of a semaphore. */
    public static LockItem semaphore(String name, int permits, int limit) {
        return new LockItem(name, LockKind.SEMAPHORE, permits, limit);
    }
}
