package io.lockd.client;

/** The lock ended without an unlock. Stop the work; lock again, and get a greater fence. */
public class LockLostException extends LockdException {
    private static final long serialVersionUID = 1L;

    private final String name;
    private final LostReason lost;
    private final String by;
    private final String why;
    private final boolean maxHold;

    LockLostException(String message, String name, LostReason lost, String by, String why, boolean maxHold) {
        super(message, "LOCK_LOST");
        this.name = name;
        this.lost = lost;
        this.by = by;
        this.why = why;
        this.maxHold = maxHold;
    }

    /** Whether it was held for the time of {@link Request#maxHold}. */
    public boolean maxHold() {
        return maxHold;
    }

    /** The lock. */
    public String name() {
        return name;
    }

    /** Why it was lost. */
    public LostReason lostReason() {
        return lost;
    }

    /** Who released it by force, in their own words. Empty if that is not known. */
    public String by() {
        return by;
    }

    /** Why it was released by force, in the words of who did. Empty if that is not known. */
    public String why() {
        return why;
    }
}
