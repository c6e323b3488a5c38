package io.lockd.client.internal;

import io.lockd.v1.Acquire;
import io.lockd.v1.AcquireItem;
import io.lockd.v1.Hold;
import io.lockd.v1.Limits;
import io.lockd.v1.LockKind;
import io.lockd.v1.Queued;
import io.lockd.v1.SessionRequest;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.IntConsumer;

/** A request for a lock, or for several. */
public final class AcquireAsk extends Ask {
    /**
     * What is asked for. Times are nanoseconds; lease 0 is an auto lease, maxHold 0 no bound,
     * patience below 0 waits for ever, 0 tries once.
     */
    public record Spec(List<Item> items, String holder, String annotation, String actor, long patience, long lease,
        long maxHold) { }

    /** One of the locks. */
    public record Item(String name, int kind, int permits, int limit) { }

    private static final int ACTOR_BYTES = 128;

    private final Spec spec;
    private final Unread<Integer> positions;
    private final Unread<Queued> holders;
    private final long begun;
    private final long end;
    private boolean asked;
    private int position;

    /** onQueued is told positions, onHeld who is in the way; each may be null. */
    public AcquireAsk(Engine engine, Spec spec, IntConsumer onQueued, Consumer<Queued> onHeld) {
        super(engine);
        this.spec = spec;
        positions = onQueued == null ? null : new Unread<>(engine.callbacks, onQueued::accept);
        holders = onHeld == null ? null : new Unread<>(engine.callbacks, onHeld);
        begun = engine.loop.now();
        end = begun + Math.max(spec.patience(), 0);
        changes = true;
        once = isTry();
        patient = !once;
        if (once) {
            by = begun + engine.settings.answerNanos;
            until = by;
        } else if (spec.patience() > 0) {
            by = end + engine.settings.answerNanos;
            until = end;
            late = Fault.TIMED_OUT;
        }
    }

    boolean isTry() {
        return spec.patience() == 0;
    }

    private Acquire.Builder message() {
        Acquire.Builder a = Acquire.newBuilder()
            .setHolder(spec.holder()).setAnnotation(spec.annotation()).setActor(spec.actor())
            .setTellHolder(holders != null);
        if (spec.lease() > 0) {
            a.setLease(Beats.duration(spec.lease()));
        }
        if (spec.maxHold() > 0) {
            a.setMaxHold(Beats.duration(spec.maxHold()));
        }
        Item first = spec.items().get(0);
        if (spec.items().size() == 1) {
            return a.setName(first.name()).setKind(LockKind.forNumber(first.kind()))
                .setPermits(first.permits()).setLimit(first.limit());
        }
        for (Item i : spec.items()) {
            a.addItems(AcquireItem.newBuilder().setName(i.name()).setKind(LockKind.forNumber(i.kind()))
                .setPermits(i.permits()).setLimit(i.limit()));
        }
        return a;
    }

    int permitsOf(int item) {
        return spec.items().get(item).permits();
    }

    int count() {
        return spec.items().size();
    }

    /** Whether holds are what was asked for. */
    boolean grantedBy(List<Hold> holds) {
        boolean right = holds.size() == count();
        for (int i = 0; right && i < count(); i++) {
            Item asked = spec.items().get(i);
            right = holds.get(i).getName().equals(asked.name()) && holds.get(i).getKindValue() == asked.kind();
        }
        return right;
    }

    /** Has the caller told what is new, in the thread for its functions. again: not for the first time on a stream. */
    void queued(Queued q, boolean again) {
        int now = q.getPosition();
        if (positions != null && !(again && now == position)) {
            positions.put(now);
        }
        position = now;
        if (holders != null && !(q.getHeldBy().isEmpty() && q.getClient().isEmpty())) {
            holders.put(q.getName().isEmpty() ? q.toBuilder().setName(spec.items().get(0).name()).build() : q);
        }
    }

    @Override
    Failure refused(Limits limits) {
        int most = limits == null ? 0 : limits.getNamesPerAcquire();
        if (most > 0 && count() > most) {
            return Failure.invalid("QUOTA_NAMES", count() + " locks at once, the server allows " + most);
        }
        if (limits != null && spec.maxHold() > 0 && !limits.hasMaxHold()) {
            return Failure.of(Fault.UNSUPPORTED, "the server does not know maxHold, and would ignore it");
        }
        Limits l = limits == null ? Limits.getDefaultInstance() : limits;
        Failure no = Texts.refused("INVALID_HOLDER", "the holder", spec.holder(), l.getHolderBytes());
        no = no != null ? no : Texts.refused("INVALID_ACTOR", "the actor", spec.actor(), ACTOR_BYTES);
        no = no != null ? no
            : Texts.refused("INVALID_ANNOTATION", "the annotation", spec.annotation(), l.getAnnotationBytes());
        for (Item i : spec.items()) {
            no = no != null ? no : Texts.refused("INVALID_NAME", "the name", i.name(), l.getNameBytes());
        }
        return no;
    }

    @Override
    Call nextCall(Session s) {
        long now = engine.loop.now();
        Acquire.Builder a = until(message(), now);
        if (asked) {
            a.setWaited(Beats.duration(now - begun));
        }
        asked = true;
        Call c = new Call(SessionRequest.newBuilder().setAcquire(a));
        c.asks = this;
        return c;
    }

    /** The request as it is sent now: with what is left of its wait, and for how long it has waited. */
    Acquire.Builder again(Acquire was) {
        long now = engine.loop.now();
        return until(was.toBuilder().clearInsteadOf().clearWait(), now).setWaited(Beats.duration(now - begun));
    }

    /** Adds what is left of the wait. */
    private Acquire.Builder until(Acquire.Builder a, long now) {
        return spec.patience() < 0 ? a : a.setWait(Beats.duration(isTry() ? 0 : Math.max(end - now, 1)));
    }
}
