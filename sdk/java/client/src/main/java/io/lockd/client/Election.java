package io.lockd.client;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * An election: of all candidates at most one leads at a time. Who leads holds the lock with the name of the election,
 * and nothing else is kept anywhere; so a term has all that a {@link Held} has. Any thread may use it.
 */
public final class Election {
    static final long MIN_PAUSE_MILLIS = 50;
    static final long MAX_PAUSE_MILLIS = 1000;

    /** Stands between a candidate's id and the number that makes it a holder of its own, in all SDKs. */
    private static final String MARK = "~";
    private static final AtomicLong CANDIDATES = new AtomicLong();

    private final LockdClient client;
    private final String name;
    private LockKind kind = LockKind.EXCLUSIVE;

    Election(LockdClient client, String name) {
        this.client = client;
        this.name = name;
    }

    /** Has those lead first who campaigned first, over all replicas. All candidates have to agree on that. */
    public Election fair() {
        kind = LockKind.FAIR;
        return this;
    }

    /** The name of the election. */
    public String name() {
        return name;
    }

    /** {@link #campaign(String, String)} without an annotation. */
    public Term campaign(String id) throws InterruptedException {
        return campaign(id, "");
    }

    /**
     * Waits until the candidate leads. It outlives interruptions, and a server whose store cannot be reached: then it
     * tries again after a pause. When it throws nothing is left behind that outlives a lease.
     *
     * @param id what observers know the candidate by, such as its address. It need not be unique
     * @param annotation for people who look at the lock, and for observers at the same replica
     * @throws InterruptedException if the thread is interrupted
     * @throws LockdException if waiting does not help, as {@link AccessDeniedException}
     */
    public Term campaign(String id, String annotation) throws InterruptedException {
        for (long pause = MIN_PAUSE_MILLIS;; pause = Math.min(2 * pause, MAX_PAUSE_MILLIS)) {
            try {
                return new Term(request(id, annotation).acquire());
            } catch (LockdException e) {
                if (!passes(e)) {
                    throw e;
                }
            }
            Thread.sleep(pause / 2 + ThreadLocalRandom.current().nextLong(pause / 2));
        }
    }

    /** The same for so long; then {@link LockTimeoutException}. */
    public Term campaign(String id, String annotation, Duration wait) throws InterruptedException {
        return new Term(request(id, annotation).waitUpTo(wait).acquire());
    }

    private LockRequest request(String id, String annotation) {
        return client.lock(name).kind(kind).annotation(annotation).holder(id + MARK + CANDIDATES.incrementAndGet());
    }

    /** Whether it is one of those failures that end by themselves. */
    static boolean passes(LockdException e) {
        return e instanceof LockdUnavailableException || e instanceof OutcomeUnknownException
            || e.reason().equals("STORE_FULL");
    }

    /** Asks who leads now. The answer may be outdated when it arrives. It throws what {@link LockdClient#look} does. */
    public Leader leader() {
        LockInfo i = client.look(name);
        return i.held()
            ? new Leader(idOf(i.heldBy()), i.client(), i.annotation(), i.fence(), i.heldBy(), i.ttl(), null)
            : Leader.NOBODY;
    }

    /**
     * The id of the candidate that holds a lock, as {@code <session>:<id>~<number>#<request>}; else all that is known.
     */
    private static String idOf(String heldBy) {
        String holder = heldBy.substring(heldBy.indexOf(':') + 1);
        holder = holder.contains("#") ? holder.substring(0, holder.lastIndexOf('#')) : holder;
        int end = holder.lastIndexOf(MARK);
        return end < 0 || !holder.substring(end + 1).matches("\\d+") ? heldBy : holder.substring(0, end);
    }

    /**
     * Tells a function who leads, and then each change, in a thread of its own, until it is closed or the client is. A
     * function that is slow is told of the latest change only. A leader who led for a moment only may be missed.
     * <p>
     * The server pushes the end of each term, and then is asked who leads; while nobody does it is asked again, at most
     * once a second. While it cannot be reached the leader of before is told, once, with a doubt. After any other
     * failure, as
     * {@link AccessDeniedException}, nothing more is told.
     */
    public Watch observe(Consumer<Leader> told) {
        return new Observation(client, this, told).begin();
    }
}
