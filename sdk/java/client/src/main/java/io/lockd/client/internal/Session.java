package io.lockd.client.internal;

import io.lockd.client.internal.Call.Answer;
import io.lockd.client.internal.Grant.Ending;
import io.lockd.v1.Acquire;
import io.lockd.v1.Cancel;
import io.lockd.v1.Extend;
import io.lockd.v1.Limits;
import io.lockd.v1.Lost;
import io.lockd.v1.SessionRequest;
import io.netty.util.concurrent.ScheduledFuture;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * A client's relation with the server: what it holds and what it asked for. It is on one stream at a time, and goes on
 * in another one when that breaks. It belongs to the loop.
 */
final class Session {
    /** How long close waits. A tenth of it is enough if the answer means nothing. */
    private static final long CLOSE_NANOS = 2_000_000_000L;

    final Engine engine;
    final long opened;
    Limits limits = Limits.getDefaultInstance();
    String id = "";
    String token = "";
    long ttl;
    /** Which of the targets it was on last. */
    int at;
    /** null while there is none. */
    Stream stream;
    /** The one that it was on, while another one is tried. */
    Stream parked;
    /** Of the last attempt to open a stream. */
    long epoch;
    long nextId;
    final ArrayDeque<Call> queue = new ArrayDeque<>();
    final Map<Long, Call> pending = new HashMap<>();
    final Map<Hold.Key, Hold> holds = new HashMap<>();
    /** Nothing new is sent; Goodbye follows what is queued. */
    boolean leaving;
    boolean over;

    /** When a hold is to be looked at. */
    private record Alarm(long at, Hold hold) {
        /** Whether it is to be looked at then: it has not ended, and is not looked at earlier. */
        boolean counts() {
            return hold.rings == at && !hold.grants.isEmpty();
        }
    }

    /** It does not matter if none of so many counts. */
    private static final int FEW_ALARMS = 64;

    /** Some do not count. */
    private final PriorityQueue<Alarm> alarms = new PriorityQueue<>(Comparator.comparingLong(Alarm::at));
    private ScheduledFuture<?> alarm;
    private long alarmAt = Long.MAX_VALUE;
    private Consumer<Boolean> onLeft;

    Session(Engine engine) {
        this.engine = engine;
        this.opened = engine.loop.now();
        this.ttl = Beats.nanos(engine.settings.open.getSessionTtl());
    }

    // Requests.

    /** Queues a call and has it sent, unless the session takes none any more. */
    boolean submit(Call c) {
        if (over || leaving) {
            return false;
        }
        number(c);
        if (c.extended != null && c.request().getExtend().getMayShorten()) {
            shortening(c);
        }
        rouse();
        return true;
    }

    /** Gives a call the next id and puts it into the queue. */
    void number(Call c) {
        nextId++;
        c.number(nextId);
        if (c.tracked()) {
            pending.put(nextId, c);
        }
        queue.add(c);
    }

    private void rouse() {
        if (stream != null) {
            stream.rouse();
        }
    }

    /** Gives a call up. An Acquire is cancelled, and released if it is granted all the same. */
    void abandon(Call c, Failure why) {
        if (pending.get(c.id()) != c) {
            return; // it was answered
        }
        boolean unsent = disown(c);
        Consumer<Answer> then = c.then;
        c.abandoned = true;
        then.accept(Answer.failed(why, unsent));
    }

    /** Says whether the server surely never sees a call that is given up. */
    private boolean disown(Call c) {
        if (!c.request().hasAcquire()) {
            return false;
        }
        if (c.sent) {
            submit(new Call(SessionRequest.newBuilder().setCancel(Cancel.newBuilder().setTargetId(c.id()))));
            return false;
        }
        if (c.seen) { // it asks for nothing any more, but has undone what it took before
            Acquire.Builder now = c.request().getAcquire().toBuilder().setWait(Beats.duration(0));
            c.ask(c.message().toBuilder().setAcquire(now));
            return false;
        }
        pending.remove(c.id()); // it stays in the queue, and is passed over
        return true;
    }

    /** Asks something about a grant, which may end meanwhile, with the bound of an answer. */
    CompletableFuture<Answer> within(Grant g, Call c, boolean mustBeFixed) {
        CompletableFuture<Answer> answer = new CompletableFuture<>();
        engine.loop.execute(() -> {
            Failure no = refusal(g, c, mustBeFixed);
            if (no != null) {
                answer.complete(Answer.failed(no, true));
                return;
            }
            Bounds.Bound late = engine.bounds.begin(() ->
                abandon(c, Failure.of(Fault.NO_ANSWER, "the server did not answer in time")));
            c.then = a -> {
                late.cancel();
                boolean unknown = a.failure() != null && !a.unsent() && a.failure().is(Fault.NO_ANSWER,
                    Fault.SESSION_OVER);
                answer.complete(unknown ? a.missing(true) : a);
            };
            if (!submit(c)) {
                c.then.accept(Answer.failed(Failure.of(Fault.SESSION_OVER, "the session ended"), true));
            }
        });
        return engine.unlessClosed(answer);
    }

    /**
     * What is known to be refused: null is well. A lease that is too short would end here before the server said so.
     */
    private Failure refusal(Grant g, Call c, boolean mustBeFixed) {
        Extend e = c.request().getExtend();
        if (mustBeFixed && g.hold.auto) { // the server would make it fixed
            return Failure.of(Fault.AUTO_LEASE, "the lease is renewed by itself");
        }
        if (e.getMayShorten() && e.hasLease() && Beats.nanos(e.getLease()) < Beats.nanos(limits.getMinLease())) {
            return Failure.invalid("INVALID_DURATION", "the lease is shorter than the server allows");
        }
        return null;
    }

    /** Sends the release of a grant that was unlocked. */
    void release(Grant g, Consumer<Answer> then) {
        remove(g);
        Call c = g.releaseCall();
        c.then = then;
        if (!submit(c)) {
            then.accept(Answer.failed(Failure.of(Fault.SESSION_OVER, "the session ended"), false));
        }
        leaveIfIdle();
    }

    /** Has something released that nobody wants. */
    void undo(Grant g) {
        submit(g.releaseCall());
    }

    // What is held.

    /** Takes in what was granted, and until when it is valid. */
    Grant add(io.lockd.v1.Hold told, Beats.Until until, long most, boolean auto, String annotation, int permits) {
        Hold.Key key = Hold.Key.of(told);
        Hold h = holds.get(key);
        if (h != null && h.passed(engine.loop.now())) {
            expire(h);
            h = null;
        }
        if (h == null) {
            h = new Hold(key, until, most, auto);
            holds.put(key, h);
        } else {
            h.auto = auto;
            h.most = h.most == 0 ? most : h.most;
            raise(h, until);
        }
        Grant g = new Grant(this, h, told, annotation, permits);
        h.grants.add(g);
        watch(h);
        return g;
    }

    private void remove(Grant g) {
        if (g.hold.grants.remove(g) && g.hold.grants.isEmpty()) {
            holds.remove(g.hold.key, g.hold);
        }
    }

    /** Moves a deadline later. A hold whose deadline has passed is lost: somebody may have seen that already. */
    void raise(Hold h, Beats.Until until) {
        if (!h.raise(until, engine.loop.now())) {
            expire(h);
        }
    }

    /** Notes until when all auto leases are valid. */
    void renewed(long deadline) {
        Beats.Until until = new Beats.Until(deadline, false);
        for (Hold h : List.copyOf(holds.values())) {
            if (h.auto) {
                raise(h, until);
            }
        }
    }

    /** Ends a hold whose deadline has passed. The server may still be renewing it, so it is released. */
    void expire(Hold h) {
        for (Grant g : h.grants) {
            undo(g);
        }
        h.passed(engine.loop.now());
        end(h, 0, h.endedByMost() ? Ending.MAX_HOLD : Ending.DEADLINE);
    }

    /** Ends the grants of a hold, which may be null. A fence tells an old hold of a holder from its present one. */
    void end(Hold h, long fence, Ending how) {
        if (h == null) {
            return;
        }
        for (Grant g : new ArrayList<>(h.grants)) {
            if (fence == 0 || g.fence == 0 || fence == g.fence) {
                remove(g);
                g.end(how);
            }
        }
        leaveIfIdle();
    }

    /** Ends the grants of a hold that the server lost. */
    void lost(Lost lost) {
        String reason = lost.getReason().name().replace("REASON_", "");
        end(holds.get(Hold.Key.of(lost.getHold())), lost.getHold().getFence(),
            new Ending(Grant.How.LOST, reason, lost.getBy(), lost.getWhy(), null,
                lost.getCause() == Lost.Cause.CAUSE_MAX_HOLD));
    }

    /** Has a hold looked at when its deadline has passed, or earlier. */
    private void watch(Hold h) {
        long at = h.end(); // which another thread may find passed
        if (h.rings <= at) {
            return;
        }
        if (alarms.size() >= 2 * holds.size() + FEW_ALARMS) {
            alarms.removeIf(a -> !a.counts());
        }
        h.rings = at;
        alarms.add(new Alarm(at, h));
        ringAt(at);
    }

    /**
     * Has the alarm ring at a time if it would not ring earlier anyway. It is the one timer for the deadlines of all
     * holds, and may ring early, never late: a deadline that moved later is noticed when it rings.
     */
    private void ringAt(long at) {
        if (at < alarmAt) {
            Loop.cancel(alarm);
            alarmAt = at;
            alarm = engine.loop.at(at, this::ring);
        }
    }

    /** Ends what is due. However many holds there are, only those are looked at whose turn it is. */
    private void ring() {
        alarmAt = Long.MAX_VALUE;
        endDue(engine.loop.now());
        if (!alarms.isEmpty()) {
            ringAt(alarms.peek().at());
        }
    }

    private void endDue(long now) {
        for (Alarm a = alarms.peek(); a != null && (a.at() <= now || !a.counts()); a = alarms.peek()) {
            alarms.remove();
            if (!a.counts()) {
                continue;
            }
            a.hold().rings = Long.MAX_VALUE;
            if (a.hold().passed(now)) {
                expire(a.hold());
            } else {
                watch(a.hold());
            }
        }
    }

    /**
     * Notes a shortening that is about to be sent: from here on the earlier end counts. lockd takes 1 % and 2 ms off.
     */
    private void shortening(Call c) {
        Hold h = c.extended.hold;
        long lease = Beats.nanos(c.request().getExtend().getLease());
        lease = lease > 0 ? lease : ttl;
        h.shortening = c;
        long end = engine.loop.now() + lease - lease / 100 - 2_000_000L;
        if (end < h.end()) {
            h.lower(end);
            watch(h);
        }
    }

    /** Notes an Extend that was done. */
    void extended(Call c, Beats.Until until) {
        Extend asked = c.request().getExtend();
        c.extended.hold.auto = !asked.hasLease();
        raise(c.extended.hold, until);
    }

    // The end.

    boolean resumable() {
        return !leaving && !over;
    }

    /** Whether it needs another stream: there is none, the server asked for it, or is silent. */
    boolean displaced() {
        return stream == null || stream.draining || stream.silent;
    }

    /** Ends a session that has to leave a draining server, and found no other one, as soon as nothing lives on it. */
    void leaveIfIdle() {
        if (stream != null && stream.draining && stream.stuck && holds.isEmpty() && pending.isEmpty()) {
            leaving = true;
            rouse();
        }
    }

    /** Ends all grants, says Goodbye, and tells whether all is released. It does not take longer than 2 s. */
    void leave(Consumer<Boolean> left) {
        leaving = true;
        boolean busy = !holds.isEmpty() || !pending.isEmpty() || !queue.isEmpty();
        endAll(Ending.CLOSED);
        if (stream == null && parked == null) { // nobody to say it to
            finish(Failure.of(Fault.CLOSED, "the client is closed"));
            left.accept(!busy);
            return;
        }
        rouse();
        ScheduledFuture<?> late = engine.loop.after(busy ? CLOSE_NANOS : CLOSE_NANOS / 10, () ->
            finish(Failure.of(Fault.CLOSED, "the client is closed")));
        onLeft = said -> {
            Loop.cancel(late);
            left.accept(!busy || said);
        };
    }

    /** Is the end of the session: its grants are lost, its calls unanswered. */
    void finish(Failure cause) {
        if (over) {
            return;
        }
        over = true;
        Loop.cancel(alarm);
        endAll(cause.is(Fault.CLOSED) ? Ending.CLOSED : Ending.lost("SESSION_ENDED", cause));
        List<Call> calls = List.copyOf(pending.values());
        pending.clear();
        queue.clear();
        for (Call c : calls) {
            c.reply(Answer.failed(Failure.of(Fault.SESSION_OVER, "the session ended", cause), !c.sent && !c.seen));
        }
        if (onLeft != null) {
            onLeft.accept(cause.fault == Fault.ENDED);
        }
    }

    private void endAll(Ending how) {
        for (Hold h : List.copyOf(holds.values())) {
            for (Grant g : List.copyOf(h.grants)) {
                g.end(how);
            }
            h.grants.clear();
        }
        holds.clear();
    }

    /** How large a frame may be. A server that does not tell is assumed to have a usual limit. */
    int frameBytes() {
        return limits.getFrameBytes() > 0 ? limits.getFrameBytes() : 1 << 20;
    }
}
