package io.lockd.client;

/**
 * A hold of a watched name ended. The name may be locked again already.
 *
 * @param name the lock
 * @param cause RELEASED, HANDED_OVER, EXPIRED, FORCED, DATA_LOSS or UNKNOWN; others may come with a newer lockd
 * @param fence that of the hold, 0 if it is not known
 * @param merged how many earlier ends this event tells as well, because they were not told or read in time
 * @param gap the connection was interrupted: the name may have been unlocked before, or not at all
 * @param refused why the name is watched no more; such an event is the last one. Else null
 */
public record Unlocked(String name, String cause, long fence, int merged, boolean gap, LockdException refused) { }
