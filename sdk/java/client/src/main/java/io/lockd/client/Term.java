package io.lockd.client;

import java.util.function.Consumer;

/**
 * The time for which a candidate leads. It ends by {@code resign} or {@code close}, or by being lost, once and for
 * good. Any thread may use it.
 */
public final class Term implements AutoCloseable {
    private final Held held;

    Term(Held held) {
        this.held = held;
    }

    /**
     * The number of the term: later terms of the election have greater ones. Give it to the resource with each access:
     * a leader that was stopped may act when another one leads already.
     */
    public long fence() {
        return held.fence();
    }

    /** Whether it still lasts. It reads the clock. */
    public boolean leads() {
        return held.isHeld();
    }

    /** Does nothing while it lasts, else throws what {@link Held#check} does. */
    public void check() {
        held.check();
    }

    /** Has a function told that the term is lost. See {@link Held#onLost}. */
    public Term onLost(Consumer<LockLostException> told) {
        held.onLost(told);
        return this;
    }

    /** The lock that makes the candidate the leader. */
    public Held held() {
        return held;
    }

    /**
     * Ends the term, before the server is asked; the next candidate leads at once. It throws what {@link Held#unlock}
     * does.
     */
    public void resign() {
        held.unlock();
    }

    /** Is resign for try-with-resources: see {@link Held#close}. */
    @Override
    public void close() {
        held.close();
    }
}
