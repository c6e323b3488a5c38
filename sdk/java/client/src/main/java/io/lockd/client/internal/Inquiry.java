package io.lockd.client.internal;

import io.lockd.v1.Limits;
import io.lockd.v1.SessionRequest;

/** A question about a name, or a prefix, that needs no lock. */
public final class Inquiry extends Ask {
    private final String name;
    private final SessionRequest message;
    private Runnable each;

    public Inquiry(Engine engine, String name, SessionRequest message) {
        super(engine);
        this.name = name;
        this.message = message;
        by = engine.loop.now() + engine.settings.answerNanos;
        until = by;
    }

    /** It changes something, and is not repeated. */
    public Inquiry change() {
        changes = true;
        once = true;
        return this;
    }

    /** It waits for a connection as long as for an answer, at least, and does something each time that it is asked. */
    Inquiry patiently(Runnable each) {
        patient = true;
        by = engine.loop.now() + Math.max(engine.settings.answerNanos, engine.settings.connectWaitNanos);
        until = by;
        this.each = each;
        return this;
    }

    @Override
    Failure refused(Limits limits) {
        return Texts.refused("INVALID_NAME", "the name", name, limits == null ? 0 : limits.getNameBytes());
    }

    @Override
    Call nextCall(Session s) {
        if (each != null) {
            each.run();
        }
        return new Call(message.toBuilder());
    }
}
