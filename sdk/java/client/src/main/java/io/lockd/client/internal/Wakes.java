package io.lockd.client.internal;

import io.netty.channel.IoHandle;
import io.netty.channel.IoHandler;
import io.netty.channel.IoHandlerContext;
import io.netty.channel.IoRegistration;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The network of a loop, which is woken only while it may sleep. Netty's own is woken for each task that comes while it
 * works, too: that costs a system call of who asks, and two of the loop.
 */
final class Wakes implements IoHandler {
    private final IoHandler network;
    private final AtomicBoolean sleeps = new AtomicBoolean();

    Wakes(IoHandler network) {
        this.network = network;
    }

    /**
     * Waits for the network, unless there are tasks. Who adds a task looks afterwards whether this sleeps, and this
     * looks for tasks after it has said so: one of them sees the other.
     */
    @Override
    public int run(IoHandlerContext context) {
        if (!context.canBlock()) {
            return network.run(context);
        }
        sleeps.set(true);
        int handled = network.run(context);
        sleeps.set(false);
        return handled;
    }

    @Override
    public void wakeup() {
        if (sleeps.get() && sleeps.getAndSet(false)) {
            network.wakeup();
        }
    }

    @Override
    public void initialize() {
        network.initialize();
    }

    @Override
    public IoRegistration register(IoHandle handle) throws Exception {
        return network.register(handle);
    }

    @Override
    public boolean isCompatible(Class<? extends IoHandle> type) {
        return network.isCompatible(type);
    }

    @Override
    public void prepareToDestroy() {
        network.prepareToDestroy();
    }

    @Override
    public void destroy() {
        network.destroy();
    }
}
