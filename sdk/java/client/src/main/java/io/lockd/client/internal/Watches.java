package io.lockd.client.internal;

import io.lockd.client.internal.Call.Answer;
import io.lockd.v1.SessionRequest;
import io.lockd.v1.Unlocked;
import io.lockd.v1.Unwatch;
import io.lockd.v1.Watch;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;

/** The names that are watched. It belongs to the loop, but for what is told to a watcher. */
public final class Watches {
    /** How many ends of a name are known again when the server repeats them. */
    private static final int KEPT_ENDS = 256;
    /** How many events a watcher may have unread. Then the oldest is told with a later one. */
    private static final int MAX_UNREAD = 64;

    /** The end of a hold, or, with refused, of the watching. */
    public record Event(String name, String cause, long fence, int merged, boolean gap, Failure refused) { }

    /** Who watches a name. */
    public final class Watcher {
        private final String name;
        private final Consumer<Event> listener;
        private final ReentrantLock mutex = new ReentrantLock(); // guards the field below
        private final ArrayDeque<Event> unread = new ArrayDeque<>();

        private Watcher(String name, Consumer<Event> listener) {
            this.name = name;
            this.listener = listener;
        }

        /** Ends it. An event that is being told is told. */
        public void close() {
            engine.loop.execute(() -> remove(this));
        }

        private void put(Event e) {
            mutex.lock();
            try {
                if (unread.size() == MAX_UNREAD) {
                    Event old = unread.poll();
                    e = new Event(e.name(), e.cause(), e.fence(), e.merged() + old.merged() + 1, e.gap() || old.gap(),
                        e.refused());
                }
                unread.add(e);
                if (unread.size() > 1) {
                    return; // the others are being told
                }
            } finally {
                mutex.unlock();
            }
            engine.callbacks.execute(this::tell);
        }

        private void tell() {
            for (Event e = peek(); e != null; e = next(e)) {
                listener.accept(e);
            }
        }

        private Event peek() {
            mutex.lock();
            try {
                return unread.peek();
            } finally {
                mutex.unlock();
            }
        }

        /** Takes off what was told, unless it was merged with another one meanwhile, and returns what follows. */
        private Event next(Event told) {
            mutex.lock();
            try {
                if (unread.peek() == told) {
                    unread.poll();
                }
                return unread.peek();
            } finally {
                mutex.unlock();
            }
        }
    }

    /** What tells the end of a hold from another one of its name: the hold, of permits, or the fence. */
    private record EndOf(String hold, long fence) { }

    private static final class Watched {
        final Set<Watcher> watchers = new LinkedHashSet<>();
        /** The ends that were told last, in their order. */
        final LinkedHashSet<EndOf> told = new LinkedHashSet<>();

        /** Whether an end was told before; it is remembered. */
        boolean repeats(Unlocked u) {
            EndOf of = new EndOf(u.getHold(), u.getHold().isEmpty() ? u.getFence() : 0);
            if (of.hold().isEmpty() && of.fence() == 0) {
                return false;
            }
            if (!told.add(of)) {
                return u.getMerged() == 0; // else it tells others as well
            }
            if (told.size() > KEPT_ENDS) {
                told.remove(told.iterator().next());
            }
            return false;
        }
    }

    private final Engine engine;
    private final Map<String, Watched> watched = new HashMap<>();

    Watches(Engine engine) {
        this.engine = engine;
    }

    public Watcher watcher(String name, Consumer<Event> listener) {
        return new Watcher(name, listener);
    }

    /** Begins to watch. If the answer is a failure nothing is watched. */
    public CompletableFuture<Answer> begin(Watcher w) {
        // It is noted first, so that a session that begins meanwhile is asked, too.
        Inquiry q = new Inquiry(engine, w.name, request(w.name))
            .patiently(() -> watched.computeIfAbsent(w.name, n -> new Watched()).watchers.add(w));
        return q.ask().thenApply(a -> {
            if (a.failure() != null) {
                w.close();
            }
            return a;
        });
    }

    private static SessionRequest request(String name) {
        return SessionRequest.newBuilder().setWatch(Watch.newBuilder().setName(name)).build();
    }

    private void remove(Watcher w) {
        Watched of = watched.get(w.name);
        if (of == null || !of.watchers.remove(w) || !of.watchers.isEmpty()) {
            return;
        }
        watched.remove(w.name);
        if (engine.session != null) {
            engine.session.submit(new Call(SessionRequest.newBuilder().setUnwatch(Unwatch.newBuilder()
                .setName(w.name))));
        }
    }

    /** Asks a session that begins, or goes on, for all that was watched before. */
    void again(Session s) {
        for (String name : List.copyOf(watched.keySet())) {
            Call c = new Call(request(name).toBuilder());
            c.watch = true;
            c.then = a -> {
                if (a.failure() == null) {
                    tell(name, new Event(name, "UNKNOWN", 0, 0, true, null));
                } else if (!a.failure().is(Fault.SESSION_OVER)) {
                    refused(name, a.failure());
                }
            };
            s.submit(c);
        }
    }

    void unlocked(Unlocked u) {
        Watched of = watched.get(u.getName());
        if (of == null || of.repeats(u)) {
            return;
        }
        String cause = u.getCause().name().replace("CAUSE_", "").replace("UNSPECIFIED", "UNKNOWN")
            .replace("UNRECOGNIZED", "UNKNOWN");
        tell(u.getName(), new Event(u.getName(), cause, u.getFence(), u.getMerged(), false, null));
    }

    private void tell(String name, Event e) {
        Watched of = watched.get(name);
        if (of != null) {
            of.watchers.forEach(w -> w.put(e));
        }
    }

    /** The name is watched no more. */
    void refused(String name, Failure why) {
        tell(name, new Event(name, "UNKNOWN", 0, 0, true,
            why == null ? Failure.of(Fault.FORBIDDEN, "the name may not be watched any more") : why));
        watched.remove(name);
    }

    /** No name is watched any more. */
    void refused(Failure why) {
        for (String name : List.copyOf(watched.keySet())) {
            refused(name, why);
        }
    }

    void end() {
        watched.clear();
    }
}
