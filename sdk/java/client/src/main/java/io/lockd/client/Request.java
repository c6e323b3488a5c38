package io.lockd.client;

import io.lockd.client.internal.AcquireAsk;
import io.lockd.client.internal.Call.Answer;
import io.lockd.client.internal.Engine;
import io.lockd.client.internal.Grant;
import io.lockd.client.internal.Settings;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.IntConsumer;

/**
 * A request for a lock, or for several. Its options return itself; what acquires may be called several times, and each
 * call is a request of its own. A request is not for several threads at a time.
 *
 * @param <R> the type of the request
 * @param <H> what is granted
 */
public abstract class Request<R extends Request<R, H>, H> {
    private static final long FOR_EVER = -1;

    final Engine engine;
    LockKind kind = LockKind.EXCLUSIVE;
    int permits;
    int limit;
    private String holder = "";
    private String annotation = "";
    private String actor = "";
    private long patience = FOR_EVER;
    private long lease;
    private long maxHold;
    private IntConsumer onQueued;
    private Consumer<HolderInfo> onHeld;

    Request(Engine engine) {
        this.engine = engine;
    }

    abstract R self();

    abstract List<AcquireAsk.Item> items();

    abstract H granted(List<Grant> grants);

    abstract void release(H held);

    /** Asks for another kind than EXCLUSIVE. */
    public R kind(LockKind kind) {
        this.kind = kind;
        return self();
    }

    /** One holder, in strict order of arrival everywhere. */
    public R fair() {
        return kind(LockKind.FAIR);
    }

    /** Shared with other readers. */
    public R read() {
        return kind(LockKind.READ);
    }

    /** Shared with nobody; together with readers of the same name. */
    public R write() {
        return kind(LockKind.WRITE);
    }

    /**
     * Asks for permits of a semaphore, all or none; 0 is 1. limit is how many there are: the first request that states
     * it sets it, a later one that states another fails with {@code LOCK_CONFIG_MISMATCH}. 0 is whatever was set.
     */
    public R semaphore(int permits, int limit) {
        this.permits = permits;
        this.limit = limit;
        return kind(LockKind.SEMAPHORE);
    }

    /**
     * Bounds the wait, also while there is no connection; then {@link LockTimeoutException}. Zero tries once, and
     * throws {@link LockHeldException} if the lock is busy. A server that does not answer gets the answer timeout
     * beyond that; then {@link OutcomeUnknownException}. Without it, and with more than ten years, the wait has no
     * bound.
     */
    public R waitUpTo(Duration wait) {
        patience = wait.compareTo(Settings.LONGEST) > 0 ? FOR_EVER : Math.max(Settings.nanos(wait), 0);
        return self();
    }

    /** Asks for a fixed lease: it ends after that time unless it is extended. Without it the lease is renewed. */
    public R lease(Duration lease) {
        if (lease.isNegative() || lease.isZero()) {
            throw new IllegalArgumentException("a lease of " + lease);
        }
        this.lease = Settings.nanos(lease);
        return self();
    }

    /**
     * Bounds for how long a lock is held whose lease is renewed, from the grant on, so that a holder that hangs does
     * not keep it for ever. After that it is lost, with {@link LockLostException#maxHold}. Nothing prolongs it. A
     * server that does not know it refuses it ({@code UNIMPLEMENTED}).
     */
    public R maxHold(Duration most) {
        if (most.isNegative() || most.isZero()) {
            throw new IllegalArgumentException("held for " + most);
        }
        maxHold = Settings.nanos(most);
        return self();
    }

    /**
     * Names the holder. Requests of the same holder and client are reentrant: each is granted with the same fence, and
     * the name is free after each was unlocked. Without it every request is a holder of its own.
     */
    public R holder(String name) {
        holder = name;
        return self();
    }

    /** Is for people who look at the lock. */
    public R annotation(String text) {
        annotation = text;
        return self();
    }

    /**
     * Says who asks, so that deadlocks are found: one thread of work, that does nothing else while this request waits.
     * Use an id that nobody else has, such as a UUID.
     */
    public R actor(String id) {
        actor = id;
        return self();
    }

    /**
     * Has a function told how many others wait before this request, if it has to wait; again when that is another
     * number. 0 is the next. It is called by the client's thread for such calls, before what is granted is returned,
     * unless it does not return within a second: then it keeps nothing but itself.
     */
    public R onQueued(IntConsumer told) {
        onQueued = told;
        return self();
    }

    /**
     * Has a function told who is in the way, if it has to wait: at once if the server that answers knows, else after a
     * second or more; again when it is somebody else. Nothing is told while nobody is known. It is called as that of
     * {@link #onQueued} is.
     */
    public R onHeld(Consumer<HolderInfo> told) {
        onHeld = told;
        return self();
    }

    private AcquireAsk ask(long wait) {
        Consumer<HolderInfo> told = onHeld;
        return new AcquireAsk(engine, new AcquireAsk.Spec(items(), holder, annotation, actor, wait, lease,
            maxHold), onQueued, told == null ? null : by -> told.accept(HolderInfo.of(by)));
    }

    private String what() {
        List<AcquireAsk.Item> items = items();
        String first = "lock \"" + items.get(0).name() + '"';
        return items.size() == 1 ? first : first + " and " + (items.size() - 1) + " more";
    }

    /**
     * Waits until it is granted, the time of {@code waitUpTo} has passed, or the thread is interrupted. It outlives
     * interruptions of the connection. When it throws the request is taken back, and a grant of that moment is
     * released.
     *
     * @throws InterruptedException if the thread is interrupted
     * @throws LockTimeoutException if the time of {@code waitUpTo} has passed
     * @throws LockHeldException if that was zero and the lock is busy
     * @throws OutcomeUnknownException if the server did not answer in time. A late grant is released
     * @throws LockdUnavailableException if it was to try once, and the server cannot be reached
     * @throws DeadlockException if it waited in a deadlock and the client is to be told
     * @throws LockdException for other reasons, see docs/errors.md
     */
    public H acquire() throws InterruptedException {
        Answer a = await(patience);
        if (a.failure() != null) {
            throw Errors.of(what(), a.failure());
        }
        return granted(a.grants());
    }

    /** Takes it if it is free. Empty: it is not. It throws what {@link #acquire} does otherwise. */
    public Optional<H> tryAcquire() throws InterruptedException {
        Answer a = await(0);
        if (a.failure() == null) {
            return Optional.of(granted(a.grants()));
        }
        LockdException e = Errors.of(what(), a.failure());
        if (e instanceof LockHeldException) {
            return Optional.empty();
        }
        throw e;
    }

    private Answer await(long wait) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        AcquireAsk ask = ask(wait);
        CompletableFuture<Answer> answer = told(ask);
        try {
            return answer.get();
        } catch (java.util.concurrent.ExecutionException e) {
            throw new IllegalStateException(e); // no answer is told so
        } catch (InterruptedException e) {
            ask.cancel();
            answer.join().grants().forEach(Grant::unlock); // it was granted just then
            throw e;
        }
    }

    /** The answer, after what the functions of the caller are told. */
    private CompletableFuture<Answer> told(AcquireAsk ask) {
        CompletableFuture<Answer> answer = ask.ask();
        return onQueued == null && onHeld == null ? answer : engine.afterCallbacks(answer);
    }

    /** {@link #acquire} whatever interrupts the thread; its flag is then set afterwards. */
    public H acquireUninterruptibly() {
        Answer a = told(ask(patience)).join();
        if (a.failure() != null) {
            throw Errors.of(what(), a.failure());
        }
        return granted(a.grants());
    }

    /**
     * Like {@link #acquire}, for those who do not wait. The future fails with the same exceptions. To cancel it, or to
     * complete it otherwise, as {@code orTimeout} does, takes the request back: it leaves no hold and no place in a
     * queue.
     */
    public CompletableFuture<H> acquireAsync() {
        AcquireAsk ask = ask(patience);
        CompletableFuture<H> out = new CompletableFuture<>();
        String what = what();
        out.whenComplete((held, failed) -> {
            if (!ask.answered()) {
                ask.cancel();
            }
        });
        ask.ask().thenAcceptAsync(a -> {
            if (a.failure() != null) {
                out.completeExceptionally(Errors.of(what, a.failure()));
                return;
            }
            H held = granted(a.grants());
            if (!out.complete(held)) { // it ended otherwise just then
                release(held);
            }
        }, engine.executor());
        return out;
    }
}
