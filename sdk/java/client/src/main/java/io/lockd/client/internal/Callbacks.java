package io.lockd.client.internal;

import java.util.ArrayDeque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The thread that calls functions of the program, in order. It is there while there is something to call. A function
 * that does not return in {@link #STUCK_MILLIS} keeps that thread, and another one goes on with the others, so it stops
 * nothing but what it is to be told itself. That is so for {@link #MOST_STUCK} functions at a time.
 */
final class Callbacks implements Executor {
    static final long STUCK_MILLIS = 1_000;
    static final int MOST_STUCK = 32;

    private final Crew crew;
    /** The threads are another one's, who ends them. */
    private final boolean shared;
    private volatile boolean over;

    Callbacks(String name) {
        this(name, STUCK_MILLIS);
    }

    /** Has a function be stuck after another time. */
    Callbacks(String name, long stuckMillis) {
        crew = new Crew(name, stuckMillis);
        shared = false;
    }

    /** Has the thread of another one call. */
    Callbacks(Callbacks other) {
        crew = other.crew;
        shared = true;
    }

    /** One function, which is never called twice at a time. */
    static final class Line {
        // Guarded by the mutex of the crew:
        private boolean busy;
        private final ArrayDeque<Runnable> behind = new ArrayDeque<>();
    }

    /** What a function throws goes to the handler of uncaught exceptions; the next one is called all the same. */
    @Override
    public void execute(Runnable function) {
        taken(null, function); // else the client was closed: no call begins any more
    }

    /** The same for a function that is called more than once. */
    void execute(Line line, Runnable function) {
        taken(line, function);
    }

    /** The same for what must be told: after the end the thread that tells it does that itself. */
    void executeOrRun(Runnable function) {
        if (!taken(null, function)) {
            function.run();
        }
    }

    private boolean taken(Line line, Runnable function) {
        return !over && crew.add(new Task(line, function));
    }

    /** Has no further call begin but those that were asked for. */
    void end() {
        over = true;
        if (!shared) {
            crew.end();
        }
    }

    private record Task(Line line, Runnable function) { }

    /** The threads. One of them works; the others are stuck in a function. */
    private static final class Crew {
        private static final long IDLE_NANOS = 1_000_000_000L;

        private final String name;
        private final long stuckMillis;
        private final ReentrantLock mutex = new ReentrantLock(); // guards the fields below
        private final Condition news = mutex.newCondition();
        private final ArrayDeque<Task> tasks = new ArrayDeque<>();
        /** null if there is none. */
        private Worker working;
        private int stuck;
        private boolean watched;
        private boolean ended;

        Crew(String name, long stuckMillis) {
            this.name = name;
            this.stuckMillis = stuckMillis;
        }

        boolean add(Task t) {
            mutex.lock();
            try {
                if (ended) {
                    return false;
                }
                tasks.add(t);
                if (working == null) {
                    begin();
                } else if (working.busy) {
                    watch(stuckMillis);
                } else {
                    news.signal();
                }
                return true;
            } finally {
                mutex.unlock();
            }
        }

        private void begin() {
            working = new Worker();
            Thread t = new Thread(working, name);
            t.setDaemon(true);
            t.start();
        }

        /** Looks after a while whether a function is stuck that keeps others. */
        private void watch(long millis) {
            if (!watched) {
                watched = true;
                CompletableFuture.delayedExecutor(Math.max(millis, 1), TimeUnit.MILLISECONDS, Runnable::run)
                    .execute(this::look);
            }
        }

        private void look() {
            mutex.lock();
            try {
                watched = false;
                if (tasks.isEmpty() || working == null || !working.busy) {
                    return;
                }
                long left = stuckMillis - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - working.began);
                if (left > 0) {
                    watch(left);
                } else if (stuck < MOST_STUCK) { // else whoever returns first has it looked at again
                    stuck++;
                    begin();
                }
            } finally {
                mutex.unlock();
            }
        }

        void end() {
            mutex.lock();
            try {
                ended = true;
                news.signalAll();
            } finally {
                mutex.unlock();
            }
        }

        private final class Worker implements Runnable {
            // Guarded by the mutex:
            private boolean busy;
            /** When its function was called. */
            private long began;

            @Override
            public void run() {
                mutex.lock();
                try {
                    for (Task t = next(); t != null; t = next()) {
                        call(t);
                    }
                } finally {
                    mutex.unlock();
                }
            }

            /** What to call next; null if that is up to another one, or nothing is left. */
            private Task next() {
                long left = IDLE_NANOS;
                while (working == this) {
                    Task t = tasks.poll();
                    if (t != null && (t.line == null || !t.line.busy)) {
                        return t;
                    }
                    if (t != null) {
                        t.line.behind.add(t.function);
                    } else if (ended || left <= 0) {
                        working = null;
                    } else {
                        left = await(left);
                    }
                }
                return null;
            }

            private long await(long nanos) {
                try {
                    return news.awaitNanos(nanos);
                } catch (InterruptedException e) { // by a function: it meant something else
                    return nanos;
                }
            }

            /** Calls a function, and then what it was to be told meanwhile. */
            private void call(Task t) {
                Runnable function = t.function;
                for (; function != null; function = t.line == null ? null : t.line.behind.poll()) {
                    if (t.line != null) {
                        t.line.busy = true;
                    }
                    busy = true;
                    began = System.nanoTime();
                    if (working == this && !tasks.isEmpty()) {
                        watch(stuckMillis);
                    }
                    mutex.unlock();
                    try {
                        quietly(function);
                    } finally {
                        mutex.lock();
                        busy = false;
                    }
                }
                if (t.line != null) {
                    t.line.busy = false;
                }
                if (working != this) {
                    stuck--;
                    watch(0);
                }
            }

            private static void quietly(Runnable function) {
                try {
                    function.run();
                } catch (Throwable e) {
                    Thread t = Thread.currentThread();
                    t.getUncaughtExceptionHandler().uncaughtException(t, e);
                }
            }
        }
    }
}
