package io.lockd.client.internal;

import io.lockd.client.internal.Call.Answer;
import io.lockd.client.internal.Grant.Ending;
import io.lockd.v1.Acquire;
import io.lockd.v1.HeldLock;
import io.lockd.v1.Lost;
import io.lockd.v1.Opened;
import io.lockd.v1.SessionRequest;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * An attempt to begin a session in a stream, or to go on with it. Until it is over nothing is sent on the stream that
 * there is, and nothing that comes on it counts: what it granted now the other replica would not know of. Each attempt
 * has a number of its own: what became of the last one may not be known.
 */
final class Resume {
    /** How many former ids of a request a server takes. */
    private static final int MOST_FORMER = 16;

    private final Session session;
    private final long now;
    private final Map<Hold.Key, HeldLock.Builder> claimed = new LinkedHashMap<>();
    private final Map<Hold.Key, Long> since = new HashMap<>();

    private Resume(Session s) {
        session = s;
        now = s.engine.loop.now();
    }

    /** Begins an attempt; null if the session cannot go on. */
    static Resume begin(Session s) {
        if (!s.resumable()) {
            return null;
        }
        s.parked = s.stream;
        s.stream = null;
        s.epoch++;
        s.nextId++; // that of Open
        Resume r = new Resume(s);
        for (Hold h : s.holds.values()) {
            for (int i = h.grants.size() - 1; i >= 0; i--) {
                r.claim(h.grants.get(i));
            }
        }
        for (Call c : s.pending.values()) {
            if (c.freesAll()) {
                r.claim(c.frees);
            }
        }
        for (Call c : s.pending.values()) {
            int keep = c.request().getRelease().getKeep();
            HeldLock.Builder h = c.frees != null && keep > 0 ? r.claimed.get(c.frees.hold.key) : null;
            if (h != null) { // the others may be gone
                h.setPermits(Math.min(Math.max(h.getPermits(), 1), keep));
            }
        }
        return r;
    }

    /** Adds a grant to what is held, perhaps to a hold that is there already. */
    private void claim(Grant g) {
        HeldLock.Builder h = claimed.computeIfAbsent(g.hold.key,
            key -> HeldLock.newBuilder().setHold(g.proto()).setPermits(g.permits));
        if (h.getHold().getFence() != g.fence) {
            return;
        }
        h.setHoldCount(h.getHoldCount() + 1);
        long age = now - g.granted;
        if (age >= since.getOrDefault(g.hold.key, -1L)) { // of the first one, as the server keeps it
            since.put(g.hold.key, age);
            h.setAge(Beats.duration(age)).setAnnotation(g.annotation);
        }
        h.setAuto(h.getAuto() || g.hold.auto);
        if (g.hold.most != 0) {
            h.setMaxHold(Beats.duration(Math.max(g.hold.most - now, 0)));
        }
    }

    /** The message for the server. Annotations are left out as long as there are more bytes than one frame may have. */
    io.lockd.v1.Resume message() {
        io.lockd.v1.Resume.Builder m = io.lockd.v1.Resume.newBuilder().setSessionId(session.id)
            .setResumeToken(session.token).setEpoch(session.epoch).setLastRequestId(session.nextId)
            .setAge(Beats.duration(now - session.opened));
        claimed.values().forEach(m::addHolds);
        int size = m.build().getSerializedSize();
        for (int i = m.getHoldsCount() - 1; i >= 0 && size > session.frameBytes(); i--) {
            size -= m.getHolds(i).getAnnotationBytes().size();
            m.getHoldsBuilder(i).clearAnnotation();
        }
        return m.build();
    }

    /** Ends an attempt that failed: the session goes on where it was, if it was anywhere. */
    void failed() {
        Stream st = session.parked;
        session.stream = st;
        session.parked = null;
        if (st != null) {
            st.decided();
        }
    }

    /** Has the session begin, or go on, in a stream. What it had asked for and has no answer for is asked again. */
    boolean attach(Stream st, Opened opened) {
        Session s = session;
        if (s.over) {
            return false;
        }
        s.stream = st;
        s.at = st.at;
        s.ttl = st.ttl;
        s.id = s.id.isEmpty() ? opened.getSessionId() : s.id;
        s.token = opened.getResumeToken().isEmpty() ? s.token : opened.getResumeToken();
        s.limits = opened.getLimits();
        resumed(st, opened);
        askAgain();
        Stream old = s.parked;
        s.parked = null;
        if (old != null) {
            old.close();
        }
        return true;
    }

    /** Notes what became of the holds. */
    private void resumed(Stream st, Opened opened) {
        Map<Hold.Key, List<Call>> freeing = releases();
        for (HeldLock r : opened.getResumedList()) {
            Hold.Key key = Hold.Key.of(r.getHold());
            claimed.remove(key);
            Hold h = session.holds.get(key);
            if (h != null && h.grants.get(h.grants.size() - 1).fence == r.getHold().getFence()) {
                session.raise(h, st.beats.until(r.getValidity()));
            } else if (freeing.getOrDefault(key, List.of()).stream().noneMatch(Call::freesAll)) {
                session.undo(new Grant(session, new Hold(key), r.getHold(), "", 0));
            }
        }
        for (Lost lost : opened.getLostList()) {
            Hold.Key key = Hold.Key.of(lost.getHold());
            claimed.remove(key);
            session.lost(lost);
            free(freeing.getOrDefault(key, List.of()));
        }
        Failure untold = Failure.of(Fault.PROTOCOL, "nothing was told of the lock after the session was resumed");
        claimed.forEach((key, claim) -> { // nobody renews these
            session.end(session.holds.get(key), claim.getHold().getFence(), Ending.lost("SESSION_ENDED", untold));
            free(freeing.getOrDefault(key, List.of()));
        });
    }

    /** The releases that are not answered, by what they release: there may be as many as holds. */
    private Map<Hold.Key, List<Call>> releases() {
        Map<Hold.Key, List<Call>> all = new HashMap<>();
        for (Call c : session.pending.values()) {
            if (c.frees != null) {
                all.computeIfAbsent(c.frees.hold.key, key -> new ArrayList<>(1)).add(c);
            }
        }
        return all;
    }

    /** Answers the releases of a hold that is not there. One that the server may have seen was done. */
    private void free(List<Call> releases) {
        for (Call c : releases) {
            if (!session.pending.remove(c.id(), c)) {
                continue;
            }
            boolean unsent = !c.sent && !c.seen;
            Failure gone = unsent ? Failure.of(Fault.NOT_HELD, "the lock was lost before") : null;
            c.reply(new Answer(null, null, List.of(), 0, gone, unsent));
        }
    }

    /** Has all that is not answered sent on the new stream, in the same order, with new ids. */
    private void askAgain() {
        List<Call> calls = new ArrayList<>(session.pending.values());
        for (Call c : session.queue) {
            if (!c.tracked()) {
                calls.add(c);
            }
        }
        // Releases come first: what is being released must not be held once more.
        calls.sort(Comparator.comparing((Call c) -> !c.request().hasRelease()).thenComparingLong(Call::id));
        session.pending.clear();
        session.queue.clear();
        calls.forEach(this::again);
    }

    /** Has one call sent again, unless that means nothing on another stream. */
    private void again(Call c) {
        boolean seen = c.sent || c.seen;
        switch (c.request().getMessageCase()) {
            case CANCEL: // of an id that nobody knows any more
                return;
            case ACQUIRE:
                acquireAgain(c);
                return;
            case SET_LIMIT:
                if (seen) {
                    c.reply(Answer.failed(Failure.of(Fault.BROKEN, "the stream ended before the answer came"), false));
                    return;
                }
                break;
            case RELEASE:
            case EXTEND:
                break;
            default:
                // a Watch that the engine repeats by itself; or nobody waits for the answer
                if (c.watch || c.abandoned) {
                    return;
                }
        }
        c.seen = seen;
        c.sent = false;
        session.number(c);
    }

    /**
     * Asks for a lock again, with what is left of the wait. The server undoes what the request may have taken under its
     * old ids. A fair one has its place under one of them. For nobody it is asked only to have that undone.
     */
    private void acquireAgain(Call c) {
        List<Long> former = former(c);
        if (c.abandoned && former.isEmpty()) {
            return;
        }
        Acquire.Builder again = c.asks.again(c.request().getAcquire()).addAllInsteadOf(former);
        if (c.abandoned) {
            again.setWait(Beats.duration(0));
        }
        c.ask(SessionRequest.newBuilder().setAcquire(again));
        c.seen = c.seen || c.sent;
        c.sent = false;
        c.waits = false;
        session.number(c);
    }

    /** The ids under which a request may have something. Who was told that it waits has nothing under those before. */
    private static List<Long> former(Call c) {
        List<Long> before = c.request().getAcquire().getInsteadOfList();
        if (!c.sent) {
            return List.copyOf(before);
        }
        if (c.waits) {
            return List.of(c.id());
        }
        List<Long> former = new ArrayList<>(before.subList(Math.max(0, before.size() + 1 - MOST_FORMER),
            before.size()));
        former.add(c.id());
        return former;
    }
}
