package io.lockd.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/** Locks that were granted together. From then on each lives by itself, and these are over as soon as one is. */
public final class HeldAll implements AutoCloseable {
    private final List<Held> all;

    HeldAll(List<Held> all) {
        this.all = List.copyOf(all);
    }

    /** The locks, in the order in which they were asked for. */
    public List<Held> all() {
        return all;
    }

    /** Whether all are still held. */
    public boolean isHeld() {
        return all.stream().allMatch(Held::isHeld);
    }

    /** For how long all are surely held; zero when one has ended. */
    public Duration remaining() {
        return all.stream().map(Held::remaining).min(Comparator.naturalOrder()).orElse(Duration.ZERO);
    }

    /** Does nothing while all are held, else throws what {@link Held#check} of one does that has ended. */
    public void check() {
        all.forEach(Held::check);
    }

    /** Has a function told of the first one that is lost. See {@link Held#onLost}. */
    public HeldAll onLost(Consumer<LockLostException> told) {
        AtomicBoolean said = new AtomicBoolean();
        for (Held h : all) {
            h.onLost(lost -> {
                if (said.compareAndSet(false, true)) {
                    told.accept(lost);
                }
            });
        }
        return this;
    }

    /**
     * Releases all, at once. Those that were unlocked before are passed over, so it may be repeated. One that cannot be
     * released does not keep the others; what it throws has what others threw as suppressed ones.
     */
    public void unlock() {
        List<CompletableFuture<Void>> answers = new ArrayList<>();
        for (Held h : all) {
            answers.add(h.unlockAsyncUnlessDone());
        }
        LockdException first = null;
        for (CompletableFuture<Void> answer : answers) {
            try {
                answer.join();
            } catch (CompletionException e) {
                LockdException next = (LockdException) e.getCause();
                if (first == null) {
                    first = next;
                } else {
                    first.addSuppressed(next);
                }
            }
        }
        if (first != null) {
            throw first;
        }
    }

    /** Releases all; throws only {@link LockLostException}, if one was lost. */
    @Override
    public void close() {
        try {
            unlock();
        } catch (LockLostException e) {
            throw e;
        } catch (LockdException e) {
            // the leases end by themselves
        }
    }
}
