package io.lockd.client;

import io.lockd.client.internal.Call.Answer;
import io.lockd.client.internal.Engine;
import io.lockd.client.internal.Failure;
import io.lockd.client.internal.Fault;
import io.lockd.client.internal.Inquiry;
import io.lockd.client.internal.Settings;
import io.lockd.client.internal.Watches;
import io.lockd.client.locks.LockdLocks;
import io.lockd.v1.HeldLock;
import io.lockd.v1.ListHolds;
import io.lockd.v1.LockState;
import io.lockd.v1.Look;
import io.lockd.v1.SessionRequest;
import io.lockd.v1.SetLimit;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * One session with a server, which all locks of a program share. It connects when it is first used, goes on when the
 * connection breaks, and opens a new session when that ends. All methods may be called by any thread.
 */
public final class LockdClient implements AutoCloseable {
    /** More than any session holds. */
    private static final int MOST_HOLDS = 1_000_000;

    private final Engine engine;
    private final LockdLocks locks = new LockdLocks(this);
    private final Operator operator;
    private final Set<AutoCloseable> parts = ConcurrentHashMap.newKeySet();
    private final ReentrantLock mutex = new ReentrantLock(); // guards the fields below
    private final Map<Duration, LockdClient> ofTtl = new HashMap<>();
    private volatile boolean closed;

    LockdClient(Engine engine) {
        this.engine = engine;
        this.operator = new Operator(engine);
    }

    /**
     * Makes a client for a server such as {@code lockd.example.com:7420}, or for several replicas, separated by commas.
     * The port is 7420 if there is none. It does not connect yet.
     */
    public static LockdClient connect(String addresses) {
        return builder(addresses).build();
    }

    /** The same with options. */
    public static LockdClientBuilder builder(String addresses) {
        return new LockdClientBuilder(addresses);
    }

    /**
     * A client like this one whose locks outlive the last sign of life for another time, as {@code sessionTtl} of the
     * builder has it: for a lock that must be free five seconds after a crash, in a program whose other locks survive a
     * pause of a minute. It is a session of its own, with its own connection, heartbeats and holders, so a lock of the
     * one is held by somebody else for the other. It is made once for each TTL, shared by all who ask for it, and
     * closed with this client. A TTL that the server does not allow is refused when it is first used.
     *
     * @throws IllegalArgumentException if the TTL is not above zero
     * @throws ClientClosedException if this client was closed
     */
    public LockdClient withTtl(Duration ttl) {
        if (ttl.isNegative() || ttl.isZero()) {
            throw new IllegalArgumentException("a TTL of " + ttl);
        }
        mutex.lock();
        try {
            if (closed) {
                throw new ClientClosedException("a TTL of " + ttl + ": the client was closed", "CLIENT_CLOSED");
            }
            return ofTtl.compute(ttl, (key, made) -> made != null && !made.closed ? made
                : new LockdClient(engine.withTtl(key)));
        } finally {
            mutex.unlock();
        }
    }

    /** The TTL that this client asked for; zero if it takes that of the server. */
    public Duration sessionTtl() {
        return engine.ttl();
    }

    /** A request for a lock: {@code client.lock("orders/42").waitUpTo(Duration.ofSeconds(5)).acquire()}. */
    public LockRequest lock(String name) {
        return new LockRequest(engine, name);
    }

    /** A request for several locks of one kind, all or none. */
    public LockAllRequest lockAll(String... names) {
        return lockAll(Arrays.stream(names).map(LockItem::of).collect(Collectors.toList()));
    }

    /** A request for several locks of any kinds, all or none. */
    public LockAllRequest lockAll(List<LockItem> items) {
        return new LockAllRequest(engine, items);
    }

    /** Locks that belong to threads, as those of java.util.concurrent and of Redisson do. */
    public LockdLocks locks() {
        return locks;
    }

    /** An election: one of those who campaign for a name leads at a time. */
    public Election election(String name) {
        return new Election(this, name);
    }

    /** Leases without a session, for short programs and schedulers. */
    public Leases leases() {
        return new Leases(engine);
    }

    /**
     * Tells what is known of a name. The answer may be outdated when it arrives.
     *
     * @throws LockdUnavailableException if the server does not answer within the answer timeout
     */
    public LockInfo look(String name) {
        SessionRequest q = SessionRequest.newBuilder().setLook(Look.newBuilder().setName(name)).build();
        Answer a = Errors.await("look at \"" + name + '"', new Inquiry(engine, name, q).ask());
        LockState s = a.response().getLooked().getLock();
        Duration ttl = Settings.duration(s.getTtl());
        return new LockInfo(s.getName(), kindOf(s.getKindValue()), s.getHeld(), s.getHeldBy(), s.getClient(),
            s.getFence(),
            ttl, s.getHoldCount(), s.getHolders(), s.getLimit(), s.getWaiters(), s.getQueued(), s.getAnnotation());
    }

    private static LockKind kindOf(int number) {
        return number < 1 || number > LockKind.values().length ? null : LockKind.values()[number - 1];
    }

    /**
     * What the server says that this client's session holds, of names that begin with a prefix. What is taken or ends
     * meanwhile may come or not.
     *
     * @throws LockdUnavailableException if the server does not answer within the answer timeout
     */
    public List<HoldInfo> holds(String prefix) {
        List<HoldInfo> all = new ArrayList<>();
        String page = "";
        String last;
        do {
            last = page;
            ListHolds.Builder list = ListHolds.newBuilder().setPrefix(prefix).setPageToken(page);
            SessionRequest q = SessionRequest.newBuilder().setListHolds(list).build();
            Answer a = Errors.await("list holds", new Inquiry(engine, prefix, q).ask());
            for (HeldLock h : a.response().getHoldList().getLocksList()) {
                all.add(new HoldInfo(h.getHold().getName(), kindOf(h.getHold().getKindValue()), h.getHold().getHolder(),
                    h.getHold().getFence(), h.getHoldCount(), h.getAuto(), h.getPermits()));
            }
            page = a.response().getHoldList().getNextPageToken();
            if (!page.isEmpty() && (page.equals(last) || all.size() > MOST_HOLDS)) {
                throw Errors.of("list holds", Failure.of(Fault.PROTOCOL, "the list has no end"));
            }
        } while (!page.isEmpty());
        return all;
    }

    /**
     * Sets how many permits a semaphore has, at least 1, and returns how many it had, 0 if there was no limit. Permits
     * that are out stay out. Doing it twice is fine.
     *
     * @throws OutcomeUnknownException if it may have been done
     */
    public int setLimit(String name, int limit) {
        SessionRequest q = SessionRequest.newBuilder().setSetLimit(SetLimit.newBuilder().setName(name).setLimit(limit))
            .build();
        Answer a = Errors.await("set the limit of \"" + name + '"', new Inquiry(engine, name, q).change().ask());
        return a.response().getLimitSet().getPrevious();
    }

    /**
     * Tells a function of each end of a hold of a name, once. A function that is slow is told several ends as one,
     * which counts them. After an interruption comes an event with gap. It is for display, caches and the like: to get
     * a lock, ask for it.
     *
     * @throws LockdUnavailableException if the server does not agree in time. Nothing is watched then
     */
    public Watch watch(String name, Consumer<Unlocked> told) {
        Watches.Watcher w = engine.watches().watcher(name, e -> told.accept(new Unlocked(e.name(), e.cause(), e.fence(),
            e.merged(), e.gap(), e.refused() == null ? null : Errors.of("watch \"" + name + '"', e.refused()))));
        Errors.await("watch \"" + name + '"', engine.watches().begin(w));
        return w::close;
    }

    /**
     * Frees a name whoever holds it, by the address for operators. The holders are told.
     *
     * @return whether somebody held it
     * @throws IllegalStateException if the client was made without {@code adminAddress}
     * @throws LockdException if the server refuses it or cannot be reached
     */
    public boolean forceUnlock(String name, LockKind kind, String why) {
        return operator.forceRelease(name, kind, why);
    }

    /**
     * Releases all locks and ends the session, and those of the clients of {@link #withTtl}. It waits up to 2 s for the
     * server, and much shorter if nothing is held.
     * If no answer comes the leases run out by themselves. All that waits ends with {@link ClientClosedException}.
     * Closing it twice is fine.
     */
    @Override
    public void close() {
        closeAndConfirm();
    }

    /** Is close, and says whether the server confirmed that all is released. */
    public boolean closeAndConfirm() {
        List<LockdClient> others = endAll();
        boolean confirmed = engine.close();
        for (LockdClient other : others) {
            confirmed &= other.closeAndConfirm();
        }
        for (AutoCloseable part : parts) {
            try {
                part.close();
            } catch (Exception e) {
                throw new IllegalStateException(e); // they throw nothing
            }
        }
        return confirmed;
    }

    /** Begins to end this client and those of its TTLs, side by side: each may take its 2 s. Returns the latter. */
    private List<LockdClient> endAll() {
        mutex.lock();
        try {
            closed = true;
            ofTtl.values().forEach(LockdClient::endAll);
            engine.beginClose();
            return List.copyOf(ofTtl.values());
        } finally {
            mutex.unlock();
        }
    }

    /** Has something ended with the client; or at once if that was closed. */
    void endsWith(AutoCloseable part) {
        parts.add(part);
    }

    void ended(AutoCloseable part) {
        parts.remove(part);
    }
}
