package io.lockd.client.internal;

import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.SingleThreadEventLoop;
import io.netty.channel.nio.NioIoHandler;
import io.netty.util.concurrent.FastThreadLocalThread;
import io.netty.util.concurrent.ScheduledFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;

/** The one thread that owns the engine: it reads and writes the network, and rings when a time has come. */
final class Loop implements Executor {
    private final EventLoopGroup group;
    private final SingleThreadEventLoop loop;
    private final long base = System.nanoTime();
    private volatile boolean over;

    Loop(String name) {
        group = new MultiThreadIoEventLoopGroup(1, task -> {
            Thread thread = new FastThreadLocalThread(task, name); // what Netty keeps of it is found at once
            thread.setDaemon(true);
            return thread;
        }, NioIoHandler.newFactory());
        loop = (SingleThreadEventLoop) group.next();
    }

    EventLoopGroup group() {
        return group;
    }

    /** Nanoseconds on the monotonic clock. Wall clocks play no role. */
    long now() {
        return System.nanoTime() - base;
    }

    /** Has something done by the thread, after what it was given before. After the end nothing is. */
    @Override
    public void execute(Runnable task) {
        try {
            loop.execute(task);
        } catch (RejectedExecutionException e) {
            over = true; // the client was closed, and all that waited was told so
        }
    }

    /** Whether something was not taken any more. */
    boolean over() {
        return over;
    }

    /** Has something done at a time, unless the timer is cancelled. It is called by the thread only. */
    ScheduledFuture<?> at(long time, Runnable task) {
        return loop.schedule(task, Math.max(time - now(), 0), TimeUnit.NANOSECONDS);
    }

    ScheduledFuture<?> after(long nanos, Runnable task) {
        return at(now() + nanos, task);
    }

    /**
     * Has something done by the thread after all that it was given until then, and what is given meanwhile: at the end
     * of its turn. It is called by the thread only. After the end nothing is.
     */
    void atEndOfTurn(Runnable task) {
        try {
            loop.executeAfterEventLoopIteration(task);
        } catch (RejectedExecutionException e) {
            over = true;
        }
    }

    static void cancel(ScheduledFuture<?> timer) {
        if (timer != null) {
            timer.cancel(false);
        }
    }

    boolean inside() {
        return loop.inEventLoop();
    }

    /** Ends the thread. */
    void end() {
        group.shutdownGracefully(0, 1, TimeUnit.SECONDS);
    }

    /** Waits for the end of the thread. */
    void awaitEnd() {
        if (!inside()) {
            group.terminationFuture().awaitUninterruptibly(2, TimeUnit.SECONDS);
        }
    }
}
