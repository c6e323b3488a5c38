package io.lockd.client;

import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** One observer of an election, with a thread of its own. */
final class Observation implements Watch {
    /** How long it is believed at most that who leads still leads, without having asked again. */
    private static final long MAX_TRUST_MILLIS = 30_000;

    private final LockdClient client;
    private final Election election;
    private final Consumer<Leader> told;
    private final Semaphore changes = new Semaphore(0);
    private volatile boolean closed;
    private volatile LockdException refused;

    // Of the thread:
    private Watch ends;
    /** What was told last; null before the first. */
    private Leader last;
    private long pause = Election.MIN_PAUSE_MILLIS;

    Observation(LockdClient client, Election election, Consumer<Leader> told) {
        this.client = client;
        this.election = election;
        this.told = told;
    }

    Watch begin() {
        client.endsWith(this);
        Thread thread = new Thread(this::run, "lockd-observe-" + election.name());
        thread.setDaemon(true);
        thread.start();
        return this;
    }

    @Override
    public void close() {
        closed = true;
        changes.release();
        client.ended(this);
    }

    private void run() {
        try {
            do {
                look();
            } while (await());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            close();
            if (ends != null) {
                ends.close();
            }
        }
    }

    private void look() {
        try {
            if (refused != null) {
                throw refused;
            }
            if (ends == null) {
                ends = client.watch(election.name(), this::ended);
            }
            tell(election.leader());
        } catch (LockdException e) {
            boolean goesOn = Election.passes(e);
            boolean news = last == null || last.doubt() == null || !goesOn;
            last = (last == null ? Leader.NOBODY : last).inDoubt(e);
            if (news && !closed) {
                told.accept(last);
            }
            closed = closed || !goesOn;
        }
    }

    private void ended(Unlocked u) {
        refused = u.refused() == null ? refused : u.refused();
        changes.release();
    }

    private void tell(Leader now) {
        boolean news = last == null || last.doubt() != null || !now.same(last);
        last = now;
        if (news && !closed) {
            pause = Election.MIN_PAUSE_MILLIS;
            told.accept(now);
        }
    }

    /** Waits until it makes sense to look again, and says whether it goes on. */
    private boolean await() throws InterruptedException {
        if (closed) {
            return false;
        }
        long millis = Math.min(Math.max(last.ttl().toMillis(), Election.MAX_PAUSE_MILLIS), MAX_TRUST_MILLIS);
        if (last.doubt() != null || last.vacant()) {
            millis = pause;
            pause = Math.min(2 * pause, Election.MAX_PAUSE_MILLIS);
        }
        if (changes.tryAcquire(millis, TimeUnit.MILLISECONDS)) {
            changes.drainPermits(); // one look tells who leads after all of them
        }
        return !closed;
    }
}
