package io.lockd.client.internal;

import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** The thread that calls functions of the program, in order. It is there while there is something to call. */
final class Callbacks implements Executor {
    private final ThreadPoolExecutor thread;
    /** The thread is another one's, who ends it. */
    private final boolean shared;
    private volatile boolean over;

    Callbacks(String name) {
        thread = new ThreadPoolExecutor(1, 1, 1, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), task -> {
            Thread t = new Thread(task, name);
            t.setDaemon(true);
            return t;
        });
        thread.allowCoreThreadTimeOut(true);
        shared = false;
    }

    /** Has the thread of another one call. */
    Callbacks(Callbacks other) {
        thread = other.thread;
        shared = true;
    }

    /** What a function throws goes to the handler of uncaught exceptions; the next one is called all the same. */
    @Override
    public void execute(Runnable function) {
        taken(function); // else the client was closed: no call begins any more
    }

    /** The same for what must be told: after the end the thread that tells it does that itself. */
    void executeOrRun(Runnable function) {
        if (!taken(function)) {
            function.run();
        }
    }

    private boolean taken(Runnable function) {
        if (over) {
            return false;
        }
        try {
            thread.execute(function);
            return true;
        } catch (RejectedExecutionException e) {
            return false;
        }
    }

    /** Has no further call begin but those that were asked for. */
    void end() {
        over = true;
        if (!shared) {
            thread.shutdown();
        }
    }
}
