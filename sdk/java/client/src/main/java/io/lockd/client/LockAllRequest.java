package io.lockd.client;

import io.lockd.client.internal.AcquireAsk;
import io.lockd.client.internal.Engine;
import io.lockd.client.internal.Grant;
import java.util.List;
import java.util.stream.Collectors;

/**
 * A request for several locks, all or none. While it waits for one it holds none, so callers that lock the same names
 * in another order cannot block each other; but it has no place in the queue of a fair lock. See {@link
 * LockdClient#lockAll}.
 */
public final class LockAllRequest extends Request<LockAllRequest, HeldAll> {
    private final List<LockItem> wanted;

    LockAllRequest(Engine engine, List<LockItem> wanted) {
        super(engine);
        if (wanted.isEmpty()) {
            throw new IllegalArgumentException("there is nothing to lock");
        }
        this.wanted = List.copyOf(wanted);
    }

    @Override
    LockAllRequest self() {
        return this;
    }

    @Override
    List<AcquireAsk.Item> items() {
        return wanted.stream().map(i -> {
            if (i.kind() != null) {
                return new AcquireAsk.Item(i.name(), i.kind().ordinal() + 1, i.permits(), i.limit());
            }
            return new AcquireAsk.Item(i.name(), kind.ordinal() + 1, permits, limit);
        }).collect(Collectors.toList());
    }

    @Override
    HeldAll granted(List<Grant> grants) {
        return new HeldAll(grants.stream().map(Held::new).collect(Collectors.toList()));
    }

    @Override
    void release(HeldAll held) {
        held.all().forEach(h -> h.grant.unlock());
    }
}
