package io.lockd.client.internal;

import io.lockd.client.internal.Call.Answer;
import io.lockd.v1.Granted;
import io.lockd.v1.HeartbeatAck;
import io.lockd.v1.NotGranted;
import io.lockd.v1.SessionResponse;
import io.lockd.v1.SessionResponse.MessageCase;
import java.util.ArrayList;
import java.util.List;

/**
 * Takes what a stream told. The order of messages is kept: a heartbeat's answer speaks of the locks granted before it,
 * and of no later ones.
 */
final class Heard {
    private Heard() { }

    static void take(Stream st, SessionResponse m) {
        Session s = st.session;
        Engine engine = s.engine;
        switch (m.getMessageCase()) {
            case BATCH:
                m.getBatch().getResponsesList().forEach(inner -> take(st, inner));
                break;
            case HEARTBEAT_ACK:
                acked(st, m.getHeartbeatAck());
                break;
            case LOST:
                s.lost(m.getLost());
                break;
            case AT_RISK:
                long left = st.beats.deadline(m.getAtRisk().getValidity()) - engine.loop.now();
                engine.tell("AT_RISK", Math.max(left, 0), null, "");
                break;
            case SAFE:
                engine.tell("SAFE", 0, null, "");
                break;
            case UNLOCKED:
                engine.watches.unlocked(m.getUnlocked());
                break;
            case UNWATCHED:
                engine.watches.refused(m.getUnwatched().getName(), Failure.of(m.getUnwatched().getFailure()));
                break;
            case DRAINING:
                if (st.draining) { // that is no news
                    break;
                }
                st.draining = true;
                if (st.epoch > 1) { // perhaps each stream is to be left again, as long as its token is about to expire
                    st.count();
                }
                engine.draining(s, Beats.nanos(m.getDraining().getReconnectWithin()));
                s.leaveIfIdle();
                break;
            case CLOSING:
                Failure why = Failure.of(m.getClosing().getFailure());
                st.closing = why == null ? Failure.of(Fault.ENDED, "the server ended the session") : why;
                break;
            case QUEUED:
                Call waits = s.pending.get(m.getRequestId());
                if (waits != null && waits.asks != null) {
                    boolean again = waits.waits;
                    waits.waits = true;
                    if (!waits.abandoned) {
                        waits.asks.queued(m.getQueued(), again);
                    }
                }
                break;
            case MESSAGE_NOT_SET: // of a newer server, which can do without being understood
                break;
            default:
                answered(st, m);
        }
    }

    /** Moves the deadlines of all auto leases. */
    private static void acked(Stream st, HeartbeatAck ack) {
        if (!ack.hasValidFor()) {
            return;
        }
        long deadline = st.beats.at(ack.getSentId()) + Beats.nanos(ack.getValidFor());
        if (deadline - st.session.engine.loop.now() < st.interval * 3 / 2) {
            st.hasten();
        }
        st.session.renewed(deadline);
    }

    /** Gives an answer to its call. */
    private static void answered(Stream st, SessionResponse m) {
        Session s = st.session;
        Call c = s.pending.remove(m.getRequestId());
        if (c == null) {
            return;
        }
        if (c.extended != null && c.extended.hold.shortening == c) { // a later one may still be under way
            c.extended.hold.shortening = null;
        }
        c.reply(answers(c, m) ? answerOf(st, c, m) : Answer.failed(Failure.of(Fault.PROTOCOL,
            c.request().getMessageCase() + " was answered with " + m.getMessageCase()), false));
        s.leaveIfIdle();
    }

    /** Whether a message can answer a call. A failure always can. */
    private static boolean answers(Call c, SessionResponse m) {
        MessageCase told = m.getMessageCase();
        if (m.getResult().getFailure().getCode() != 0) {
            return true;
        }
        switch (c.request().getMessageCase()) {
            case ACQUIRE:
                return told == MessageCase.GRANTED || told == MessageCase.NOT_GRANTED;
            case RELEASE:
                return told == MessageCase.RELEASED;
            case EXTEND:
                return told == MessageCase.EXTENDED;
            case LOOK:
                return told == MessageCase.LOOKED;
            case LIST_HOLDS:
                return told == MessageCase.HOLD_LIST;
            case SET_LIMIT:
                return told == MessageCase.LIMIT_SET;
            default:
                return told == MessageCase.RESULT;
        }
    }

    /** Takes in what a call is answered. */
    private static Answer answerOf(Stream st, Call c, SessionResponse m) {
        List<Grant> grants = List.of();
        Failure failure = null;
        int left = 0;
        switch (m.getMessageCase()) {
            case GRANTED:
                grants = granted(st, c, m.getGranted());
                failure = grants == null
                    ? Failure.of(Fault.PROTOCOL, "a grant of something else than was asked for") : null;
                break;
            case RELEASED:
                left = m.getReleased().getRemaining();
                if (c.frees != null && c.request().getRelease().getKeep() > 0) {
                    c.frees.permits = left;
                }
                break;
            case NOT_GRANTED:
                failure = notGranted(c, m.getNotGranted());
                break;
            case EXTENDED:
                st.session.extended(c, st.beats.until(m.getExtended().getValidity()));
                break;
            case RESULT:
                failure = Failure.of(m.getResult().getFailure());
                // A release that was sent on an earlier stream, too, may have been carried out by the replica there:
                // that the hold is gone is what was asked for.
                if (failure != null && c.seen && c.freesAll() && failure.is(Fault.NOT_HELD, Fault.STALE)) {
                    failure = null;
                }
                break;
            default:
        }
        return new Answer(m, st, grants == null ? List.of() : grants, left, failure, false);
    }

    private static Failure notGranted(Call c, NotGranted n) {
        switch (n.getCause()) {
            case CAUSE_TIMED_OUT:
                return Failure.of(Fault.TIMED_OUT, "the wait ended before the lock was granted");
            case CAUSE_CANCELLED:
                return Failure.of(Fault.CANCELLED, "the wait was cancelled");
            default:
                boolean named = !n.getName().isEmpty(); // the one of several that was in the way
                return Failure.with(Fault.HELD, "the lock is held",
                    named ? n : n.toBuilder().setName(c.request().getAcquire().getName()).build());
        }
    }

    /**
     * Takes in what was granted, in the order in which it was asked for, or releases everything if nobody wants it any
     * more. null if it is not what was asked for.
     */
    private static List<Grant> granted(Stream st, Call c, Granted g) {
        Session s = st.session;
        boolean right = c.asks.grantedBy(g.getHoldsList());
        Beats.Until until = st.beats.until(g.getValidity());
        long most = g.hasMaxHold() ? st.beats.deadline(g.getValidity(), g.getMaxHold()) : 0;
        List<Grant> grants = new ArrayList<>(g.getHoldsCount());
        for (int i = 0; i < g.getHoldsCount(); i++) {
            io.lockd.v1.Hold told = g.getHolds(i);
            if (c.abandoned || !right) {
                s.undo(new Grant(s, new Hold(Hold.Key.of(told)), told, "", 0));
            } else {
                String annotation = c.request().getAcquire().getAnnotation();
                grants.add(s.add(told, until, most, g.getAuto(), annotation, c.asks.permitsOf(i)));
            }
        }
        return right ? grants : null;
    }
}
