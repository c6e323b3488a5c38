package io.lockd.client;

import io.lockd.client.internal.AcquireAsk;
import io.lockd.client.internal.Engine;
import io.lockd.client.internal.Grant;
import java.util.List;

/** A request for one lock. See {@link LockdClient#lock}. */
public final class LockRequest extends Request<LockRequest, Held> {
    private final String name;

    LockRequest(Engine engine, String name) {
        super(engine);
        this.name = name;
    }

    @Override
    LockRequest self() {
        return this;
    }

    @Override
    List<AcquireAsk.Item> items() {
        return List.of(new AcquireAsk.Item(name, kind.ordinal() + 1, permits, limit));
    }

    @Override
    Held granted(List<Grant> grants) {
        return new Held(grants.get(0));
    }

    @Override
    void release(Held held) {
        held.grant.unlock();
    }
}
