package io.lockd.client.internal;

import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.lockd.v1.Feature;
import io.lockd.v1.Goodbye;
import io.lockd.v1.Heartbeat;
import io.lockd.v1.Open;
import io.lockd.v1.Opened;
import io.lockd.v1.RequestBatch;
import io.lockd.v1.SessionRequest;
import io.lockd.v1.SessionResponse;
import io.netty.util.concurrent.ScheduledFuture;
import java.util.ArrayDeque;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;

/**
 * One stream of a session, with a connection of its own, so that a new one can be at another replica while the old one
 * is still being left. It connects, opens or resumes the session, and then sends and hears. It belongs to the loop.
 */
public final class Stream extends ClientCall.Listener<SessionResponse> {
    /** An attempt takes a third of the session TTL, within these bounds. */
    private static final long MIN_ATTEMPT = 1_000_000_000L;
    private static final long MAX_ATTEMPT = 30_000_000_000L;
    /** How many requests go into one frame at most. */
    private static final int MAX_BATCH = 64;
    /** Of a heartbeat interval and of a session TTL: one that is told as less, or not at all, is a mistake. */
    private static final long SHORTEST = 10_000_000L;
    /** How many messages the server may send before the first of them was handled. */
    private static final int AHEAD = 32;

    private enum Phase { CONNECTING, OPENING, OPEN, OVER }

    final Session session;
    final int at;
    Beats beats;
    long epoch;
    long ttl;
    long interval;
    /** The server asked to leave. */
    boolean draining;
    /** And the session could not go on elsewhere when that was tried. */
    boolean stuck;
    /** Nothing was heard for a while. */
    boolean silent;
    /** Why the server, or this client, is about to end it. */
    Failure closing;

    private final Engine engine;
    private Phase phase = Phase.CONNECTING;
    private Consumer<Failure> tried;
    private Resume resume;
    private ManagedChannel channel;
    private ClientCall<SessionRequest, SessionResponse> call;
    private boolean batches;
    private ScheduledFuture<?> bound;
    private ScheduledFuture<?> beat;
    private ScheduledFuture<?> quiet;
    private boolean flushing;
    private boolean beatDue;
    private boolean hasty;
    private boolean saidGoodbye;
    private long heard;
    /** What came while the session may be about to leave. */
    private final ArrayDeque<SessionResponse> backlog = new ArrayDeque<>();
    private Failure ended;

    Stream(Session session, int at) {
        this.session = session;
        this.engine = session.engine;
        this.at = at;
    }

    // Opening.

    /**
     * Has the session begin, or go on, in this stream, and tells null or why that failed. It connects first, because a
     * session that is on another stream stands still from Open on. A server that does not even connect is given up
     * after a third of the time of an attempt, and later when that happened before: connecting takes long where many
     * come at once.
     */
    void open(Consumer<Failure> tried) {
        this.tried = tried;
        bound = engine.loop.after(attemptNanos(), () -> fail(tooLong()));
        engine.channels.open(engine.settings.targets.get(at), (made, failure) -> {
            if (phase != Phase.CONNECTING || failure != null) {
                if (made != null) {
                    made.shutdownNow();
                }
                fail(failure);
                return;
            }
            channel = made;
            connectWithin(attemptNanos());
            call = engine.channels.session(made);
            call.start(this, new Metadata());
            call.request(1);
        });
    }

    private void connectWithin(long attempt) {
        Loop.cancel(bound);
        bound = engine.loop.after(Math.min(attempt / 3 << Math.min(engine.unreached, 2), attempt), () -> {
            engine.unreached++;
            fail(tooLong());
        });
    }

    private long attemptNanos() {
        long ttlNanos = session.ttl > 0 ? session.ttl : MAX_ATTEMPT; // a new session has none yet
        return Math.min(MAX_ATTEMPT, Math.max(ttlNanos / 3, MIN_ATTEMPT));
    }

    private static Failure tooLong() {
        return Failure.of(Fault.UNAVAILABLE, "opening the session took too long");
    }

    @Override
    public void onReady() {
        if (phase == Phase.CONNECTING) {
            handshake();
        } else {
            flush();
        }
    }

    private void handshake() {
        Loop.cancel(bound);
        resume = Resume.begin(session);
        if (resume == null) {
            fail(Failure.of(Fault.SESSION_OVER, "the session ended"));
            return;
        }
        bound = engine.loop.after(attemptNanos(), () -> fail(tooLong()));
        phase = Phase.OPENING;
        epoch = session.epoch;
        beats = new Beats(engine.loop.now());
        Open.Builder open = engine.settings.open.toBuilder();
        if (!session.id.isEmpty()) {
            open.setResume(resume.message());
        }
        call.sendMessage(SessionRequest.newBuilder().setRequestId(session.nextId).setOpen(open).build());
    }

    private void opened(SessionResponse m) {
        Failure why = Failure.of(Fault.PROTOCOL, "the first message was not Opened");
        switch (m.getMessageCase()) {
            case OPENED:
                attach(m.getOpened());
                return;
            case CLOSING:
                why = Failure.of(m.getClosing().getFailure());
                break;
            case RESULT:
                why = Failure.of(m.getResult().getFailure());
                break;
            default:
        }
        fail(why == null ? Failure.of(Fault.ENDED, "the server ended the session") : why);
    }

    private void attach(Opened opened) {
        ttl = Beats.nanos(opened.getSessionTtl());
        interval = Beats.nanos(opened.getHeartbeatInterval());
        batches = opened.getFeaturesList().contains(Feature.FEATURE_BATCH);
        if (Math.min(ttl, interval) < SHORTEST) {
            fail(Failure.of(Fault.PROTOCOL, "no sound heartbeat interval or session TTL was told"));
            return;
        }
        Loop.cancel(bound);
        heard = engine.loop.now();
        if (!resume.attach(this, opened)) {
            fail(Failure.of(Fault.SESSION_OVER, "the session ended"));
            return;
        }
        phase = Phase.OPEN; // not before: what is wrong in Opened has the attempt fail
        // At any moment of an interval: the clients that all came at once after a restart must not beat together.
        beatAfter(1 + ThreadLocalRandom.current().nextLong(interval));
        quiet = engine.loop.after(patience(), this::listen);
        call.request(AHEAD);
        rouse();
        tried.accept(null);
    }

    private void fail(Failure why) {
        if (phase == Phase.OVER) {
            return;
        }
        Phase was = phase;
        close();
        if (was == Phase.OPENING && resume != null) {
            resume.failed();
        }
        String what = session.id.isEmpty() ? "open a session at " : "resume the session at ";
        tried.accept(why.in(what + engine.settings.targets.get(at)));
    }

    // Hearing.

    @Override
    public void onMessage(SessionResponse m) {
        if (phase == Phase.OPENING) {
            opened(m);
            return;
        }
        if (phase != Phase.OPEN) {
            return;
        }
        heard = engine.loop.now();
        if (session.parked == this && (!m.hasHeartbeatAck() || !backlog.isEmpty())) {
            backlog.add(m); // nothing of it counts if the session leaves; nothing more is asked for until then
            return;
        }
        hear(m);
    }

    private void hear(SessionResponse m) {
        if (silent) { // it is heard again
            silent = false;
            engine.tell("CONNECTED", 0, null, session.id);
        }
        Heard.take(this, m);
        if (phase == Phase.OPEN) {
            call.request(1);
        }
    }

    /** The session goes on here, because the attempt to go on elsewhere failed. */
    void decided() {
        while (phase == Phase.OPEN && !backlog.isEmpty()) {
            hear(backlog.poll());
        }
        if (ended != null && phase == Phase.OPEN) {
            over(ended);
        }
        rouse();
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
        Failure why = Failure.of(status, trailers);
        switch (phase) {
            case CONNECTING:
            case OPENING:
                fail(why);
                return;
            case OPEN:
                if (session.parked == this) {
                    ended = why;
                } else {
                    over(why);
                }
                return;
            default:
        }
    }

    /** Takes the session off. It goes on in another stream, unless the end of this one was its end. */
    private void over(Failure told) {
        Failure cause = closing == null ? told : closing;
        session.stream = null;
        count();
        close();
        if (!session.resumable() || !broke(cause)) {
            engine.endSession(session, cause);
            return;
        }
        engine.tell("INTERRUPTED", 0, cause, "");
        engine.move(session, true);
    }

    /** Counts short streams in a row. After another one connecting begins without a pause. */
    void count() {
        engine.failures++;
        if (engine.loop.now() - beats.opened > interval) {
            engine.failures = 0;
        }
    }

    /** Whether the stream ended for a reason that leaves the session what it is. */
    private boolean broke(Failure cause) {
        if (engine.releasesOnDisconnect() || cause.hopeless() || cause.is(Fault.CLOSED, Fault.SILENT, Fault.BACKLOG,
            Fault.SESSION_EXPIRED, Fault.QUOTA, Fault.PROTOCOL)) {
            return false;
        }
        // perhaps an attempt of ours that we have not heard of
        return !cause.is(Fault.SUPERSEDED) || session.epoch > epoch;
    }

    /**
     * How long it may be silent until the session seeks a better one. That leaves a quarter of a TTL: a lease is valid
     * for two thirds of a TTL at least after the heartbeat that was answered last.
     *
     * <pre>patience = interval of heartbeats (TTL/3) + TTL/12</pre>
     */
    private long patience() {
        return ttl * 5 / 12;
    }

    private void listen() {
        if (phase != Phase.OPEN) {
            return;
        }
        long silence = engine.loop.now() - heard;
        if (silence >= ttl) {
            closing = Failure.of(Fault.SILENT, "nothing was heard for longer than the session TTL");
            onClose(Status.CANCELLED, null);
            return;
        }
        long next = patience() - silence;
        if (next <= 0) {
            next = Math.min(patience(), ttl - silence);
            if (session.stream == this && !silent && session.resumable()) {
                silent = true;
                engine.tell("INTERRUPTED", 0, Failure.of(Fault.SILENT, "the server is silent"), "");
                engine.move(session, false);
            }
        }
        quiet = engine.loop.after(next, this::listen);
    }

    // Sending.

    private void beatAfter(long nanos) {
        Loop.cancel(beat);
        beat = engine.loop.after(nanos, () -> {
            beatDue = true;
            hasty = false;
            beatAfter(interval);
            flush();
        });
    }

    /** Has a heartbeat sent early: some lease was not renewed in time, and all others are told as short. */
    void hasten() {
        if (!hasty) {
            hasty = true;
            beatAfter(interval / 4);
        }
    }

    /** Has what is queued sent, with what is queued until the loop has nothing else to do: frames are fuller so. */
    void rouse() {
        if (!flushing) {
            flushing = true;
            engine.loop.atEndOfTurn(this::flush);
        } else if (session.queue.size() == MAX_BATCH) { // there may be much to do: those who ask for more do not wait
            engine.loop.execute(this::flush);
        }
    }

    /** Sends as long as the network takes it; onReady goes on. From here on the requests count as sent. */
    private void flush() {
        flushing = false;
        if (phase == Phase.OPEN && engine.loop.now() - heard >= ttl) {
            listen(); // this process stood still: what is asked now is for the next session
        }
        while (phase == Phase.OPEN && call.isReady() && !saidGoodbye) {
            SessionRequest frame = next();
            if (frame == null) {
                return;
            }
            call.sendMessage(frame);
            if (saidGoodbye) {
                call.halfClose();
            }
        }
    }

    /** The next frame; null if there is nothing to send. The last of all is Goodbye. */
    private SessionRequest next() {
        if (beatDue) {
            beatDue = false;
            Heartbeat h = Heartbeat.newBuilder().setSentId(beats.next(engine.loop.now())).build();
            return SessionRequest.newBuilder().setHeartbeat(h).build();
        }
        if (session.stream != this) {
            return null; // what is queued is for another one
        }
        SessionRequest first = null;
        RequestBatch.Builder batch = null;
        int left = session.frameBytes() / 2; // the rest is for framing
        for (Call c = session.queue.peek(); c != null; c = session.queue.peek()) {
            if (c.abandoned && !c.seen && c.request().hasAcquire()) {
                session.queue.poll();
                continue;
            }
            left -= c.message().getSerializedSize() + 8;
            if (first != null && (left < 0 || !batches || batch != null && batch.getRequestsCount() == MAX_BATCH)) {
                break;
            }
            session.queue.poll();
            if (first == null) {
                first = c.send();
            } else {
                batch = batch == null ? RequestBatch.newBuilder().addRequests(first) : batch;
                batch.addRequests(c.send());
            }
        }
        if (first == null && session.leaving) {
            saidGoodbye = true;
            return SessionRequest.newBuilder().setGoodbye(Goodbye.getDefaultInstance()).build();
        }
        return batch == null ? first : SessionRequest.newBuilder().setBatch(batch).build();
    }

    /** Ends the stream, which may never have been used. Nothing that it tells counts any more. */
    void close() {
        phase = Phase.OVER;
        Loop.cancel(bound);
        Loop.cancel(beat);
        Loop.cancel(quiet);
        backlog.clear();
        if (call != null) {
            call.cancel("the session has left the stream", null);
        }
        if (channel != null) {
            channel.shutdownNow();
        }
    }
}
