package io.lockd.client;

/** How a name is locked. A name is used with one kind at a time; READ and WRITE go together. */
public enum LockKind {
    /** One holder. The default. */
    EXCLUSIVE,
    /** One holder, in strict order of arrival over all replicas and all other programs that share the store. */
    FAIR,
    /** Shared with other readers, never with a writer, except that a named holder who has WRITE may read as well. */
    READ,
    /**
     * Shared with nobody. A named holder who only reads is refused ({@code LOCK_UPGRADE}): it would wait for itself.
     */
    WRITE,
    /** Permits of a name that has a limited number of them. There is no named holder. */
    SEMAPHORE
}
