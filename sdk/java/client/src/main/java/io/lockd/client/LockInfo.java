package io.lockd.client;

import java.time.Duration;

/**
 * What the server knows of a name. It may be outdated when it arrives.
 *
 * @param name the lock
 * @param kind how it is locked; null where that cannot be told
 * @param held whether somebody holds it
 * @param heldBy who holds it, as Redis knows the holder
 * @param client the name of the holder's client, empty when another replica or another program holds it
 * @param fence the last one given out for the name, 0 when none is known
 * @param ttl the remaining time of the lease, zero when nobody holds it
 * @param holdCount how often its holder holds it
 * @param holders how many hold it: readers, or permits that are out
 * @param limit how many permits a semaphore has
 * @param waiters how many requests wait for it on the replica that answered
 * @param queued how many wait in the queue of a fair lock, everywhere
 * @param annotation that of the holder, where the replica that answered has it
 */
public record LockInfo(String name, LockKind kind, boolean held, String heldBy, String client, long fence, Duration ttl,
    int holdCount, int holders, int limit, int waiters, int queued, String annotation) { }
