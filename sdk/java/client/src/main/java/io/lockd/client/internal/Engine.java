package io.lockd.client.internal;

import io.lockd.client.internal.Call.Answer;
import io.lockd.v1.OnDisconnect;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Keeps one session with a server: opens it when it is first needed, goes on with it when its stream breaks, and opens
 * a new one when it ends.
 */
public final class Engine {
    /** How many requests of a client may be without an answer. */
    static final int MAX_ASKS = 100_000;
    private static final long MIN_BACKOFF = 50_000_000L;
    private static final long MAX_BACKOFF = 3_000_000_000L;

    final Settings settings;
    private final String name;
    final Loop loop;
    final Callbacks callbacks;
    /** Apart from the others: whoever loses a lock is told, whatever else keeps the program's functions. */
    private final Callbacks losses;
    final Channels channels;
    final Watches watches;
    /** Of answers that are due. */
    final Bounds bounds;
    private final Unread<Settings.News> status;
    private final AtomicInteger asks = new AtomicInteger();
    private final CompletableFuture<Boolean> left = new CompletableFuture<>();

    // Of the loop:
    /** null while there is none. */
    Session session;
    /** The session takes new requests. */
    boolean open;
    boolean connecting;
    boolean closed;
    /** Of the last attempt to connect. */
    Failure connectFailure;
    /** Attempts or short streams in a row. */
    int failures;
    /** Attempts in a row whose connection took too long. */
    int unreached;
    final Set<Ask> waiting = new LinkedHashSet<>();
    /** Until when refusals of who this is are borne: what never was good is refused at once. */
    private long bears;
    /** Which target is tried first. */
    private int at;
    private final List<Stream> streams = new ArrayList<>();

    public Engine(Settings settings, String name) {
        this(settings, name, new Callbacks("lockd-" + name + "-calls"), new Callbacks("lockd-" + name + "-losses"));
    }

    private Engine(Settings settings, String name, Callbacks callbacks, Callbacks losses) {
        this.settings = settings;
        this.name = name;
        this.callbacks = callbacks;
        this.losses = losses;
        loop = new Loop("lockd-" + name);
        channels = new Channels(settings, loop);
        watches = new Watches(this);
        bounds = new Bounds(loop, settings.answerNanos);
        status = new Unread<>(callbacks, settings.onStatus);
        losses.execute(() -> { }); // what it needs is there before the first loss
    }

    /** One like it, of another session TTL. The same threads call the functions of both. */
    public Engine withTtl(Duration ttl) {
        return new Engine(settings.withTtl(Settings.nanos(ttl)), name + '-' + ttl, new Callbacks(callbacks),
            new Callbacks(losses));
    }

    /** What was asked for; zero if nothing was. */
    public Duration ttl() {
        return Duration.ofNanos(Beats.nanos(settings.open.getSessionTtl()));
    }

    public long answerNanos() {
        return settings.answerNanos;
    }

    public String clientName() {
        return settings.open.getClientName();
    }

    /** Where asynchronous answers are told. */
    public Executor executor() {
        return settings.executor == null ? callbacksOrHere() : settings.executor;
    }

    /** Where functions are called, or, after the end, who tells the answer. */
    public Executor callbacksOrHere() {
        return callbacks::executeOrRun;
    }

    /** Where functions are called that are told of losses. */
    public Executor losses() {
        return losses;
    }

    /**
     * An answer after what the functions of the caller are told, as far as these return: they do not keep it for longer
     * than a moment.
     */
    public CompletableFuture<Answer> afterCallbacks(CompletableFuture<Answer> answer) {
        return answer.thenCompose(a -> {
            CompletableFuture<Answer> told = new CompletableFuture<>();
            callbacks.executeOrRun(() -> told.complete(a));
            return told.completeOnTimeout(a, 2 * Callbacks.STUCK_MILLIS, TimeUnit.MILLISECONDS);
        });
    }

    public Channels channels() {
        return channels;
    }

    public Watches watches() {
        return watches;
    }

    /** Whether one more request may wait for an answer. */
    boolean enter() {
        if (asks.incrementAndGet() <= MAX_ASKS) {
            return true;
        }
        asks.decrementAndGet();
        return false;
    }

    void leave() {
        asks.decrementAndGet();
    }

    /** Has an answer that was just asked for not be waited for after the end. */
    CompletableFuture<Answer> unlessClosed(CompletableFuture<Answer> answer) {
        if (loop.over()) {
            answer.complete(Answer.failed(Failure.of(Fault.CLOSED, "the client is closed"), true));
        }
        return answer;
    }

    /** Has the program told of a change. The loop calls it. */
    void tell(String state, long validNanos, Failure why, String id) {
        if (settings.onStatus != null) {
            status.put(new Settings.News(state, validNanos, why, id, Beats.nanos(settings.open.getSessionTtl())));
        }
    }

    boolean releasesOnDisconnect() {
        return settings.open.getOnDisconnect() == OnDisconnect.ON_DISCONNECT_RELEASE;
    }

    // Connecting.

    /** Begins to connect unless that is going on. All addresses are tried until there is no reason to any more. */
    void connect() {
        if (connecting || closed) {
            return;
        }
        connecting = true;
        connectFailure = null;
        pause();
    }

    /**
     * Waits before an attempt, longer after each failure, so that clients of a restarted server do not come all at
     * once.
     */
    private void pause() {
        long d = Math.min(MIN_BACKOFF << Math.min(Math.max(failures - 1, 0), 10), MAX_BACKOFF);
        if (session != null && session.resumable()) { // its leases end, however often it was interrupted of late
            d = Math.min(d, Math.max(session.ttl / 12, MIN_BACKOFF));
        }
        if (failures == 0) {
            loop.execute(this::attempt);
        } else {
            loop.after(d / 2 + ThreadLocalRandom.current().nextLong(d / 2), this::attempt);
        }
    }

    private void attempt() {
        Session s = session; // is to go on, or null
        if (closed || s != null && (!s.resumable() || open && !s.displaced())) { // nobody wants another stream
            connecting = false;
            return;
        }
        attemptAt(s, 0, null);
    }

    /** Tries each address until one succeeds, or the session that is to go on has ended. */
    private void attemptAt(Session s, int tried, Failure failed) {
        if (tried == settings.targets.size()) {
            tried(s, failed);
            return;
        }
        Stream st = new Stream(s == null ? new Session(this) : s, at);
        streams.add(st);
        st.open(why -> {
            if (why == null) {
                connected(st);
                return;
            }
            streams.remove(st);
            at = (at + 1) % settings.targets.size();
            boolean gone = s != null && why.sessionGone();
            Failure worst = failed == null || failed.permanent() || gone ? why : failed;
            if (gone || closed || why.is(Fault.SESSION_OVER)) {
                tried(s, why.is(Fault.SESSION_OVER) ? why : worst);
            } else {
                attemptAt(s, tried + 1, worst);
            }
        });
    }

    private void connected(Stream st) {
        Session s = st.session;
        tell("CONNECTED", 0, null, s.id);
        streams.removeIf(other -> other != st && other != s.parked);
        connecting = false;
        unreached = 0;
        bears = Long.MAX_VALUE;
        if (closed) { // else close says Goodbye
            if (session != s) {
                st.close();
            }
            return;
        }
        session = s;
        open = true;
        watches.again(s);
        for (Ask a : List.copyOf(waiting)) {
            waiting.remove(a);
            a.usable();
        }
    }

    /** Notes what became of an attempt. A session that nobody takes, and that is on no stream, is over. */
    private void tried(Session s, Failure why) {
        if (closed) {
            connecting = false;
            return;
        }
        if (why.is(Fault.SESSION_OVER)) { // meanwhile
            pause();
            return;
        }
        boolean last = why.permanent() && !bears(s, why);
        if (s != null && s.stream == null && (why.sessionGone() || last)) {
            failures = 0;
            endSession(s, why); // which leaves connecting as it is
            pause();
            return;
        }
        if (s != null && s.stream != null) {
            s.stream.stuck = true;
            s.leaveIfIdle();
        }
        connectFailure = why;
        failures++;
        connecting = !last;
        if (last && session == null) { // nobody connects any more who would watch again
            watches.refused(why);
        }
        waiting.removeIf(a -> !a.bears(why, last));
        if (!last) {
            pause();
        }
    }

    /**
     * Whether to go on trying although the server does not know who this is: while locks are held, and for the time of
     * an answer after the first such refusal since there was a session. Credentials are often renewed a moment later.
     */
    private boolean bears(Session s, Failure why) {
        if (!why.is(Fault.UNAUTHENTICATED)) {
            return false;
        }
        long now = loop.now();
        bears = Math.min(bears, now + settings.answerNanos);
        return now < bears || s != null && !s.holds.isEmpty();
    }

    /** Ends a session that is on no stream. Another one is opened, unless the client is closed. */
    void endSession(Session s, Failure cause) {
        if (s.over) {
            return;
        }
        boolean mine = session == s && !closed;
        if (mine) {
            session = null;
            open = false;
            tell("DISCONNECTED", 0, cause, "");
        }
        s.finish(cause); // its calls are asked again, in the next one
        if (mine) {
            connect();
        }
    }

    /** Has a session go on elsewhere. With only one address it waits a part of the time that the server gives. */
    void draining(Session s, long within) {
        tell("DRAINING", 0, null, "");
        boolean alone = settings.targets.size() == 1 && within >= 4;
        loop.after(alone ? ThreadLocalRandom.current().nextLong(within / 4) : 0, () -> move(s, false));
    }

    /**
     * Seeks another stream for a session, at any other address than it is at: those who leave a replica together are to
     * spread over the others. If closed is set the session takes no new requests until then.
     */
    void move(Session s, boolean closes) {
        if (session != s || closed) {
            return;
        }
        int others = settings.targets.size() - 1;
        if (others > 0 && !connecting) {
            at = (s.at + 1 + ThreadLocalRandom.current().nextInt(others)) % settings.targets.size();
        }
        connect();
        open = open && !closes;
    }

    // The end.

    /** Has all locks released and the session ended within 2 s, and does not wait for it. */
    public void beginClose() {
        loop.execute(this::closeAll);
    }

    /** Waits for the end of beginClose, and says whether all is surely released. */
    public boolean close() {
        beginClose();
        if (loop.over()) {
            return left.join();
        }
        boolean released = left.join();
        loop.awaitEnd();
        return released;
    }

    private void closeAll() {
        if (closed) {
            return;
        }
        closed = true;
        for (Ask a : List.copyOf(waiting)) {
            a.closed();
        }
        waiting.clear();
        watches.end();
        Session s = session;
        if (s == null || s.over) {
            ended(true);
        } else {
            s.leave(this::ended);
        }
    }

    private void ended(boolean released) {
        streams.forEach(Stream::close);
        channels.close();
        callbacks.end();
        losses.end();
        left.complete(released);
        loop.end();
    }
}
