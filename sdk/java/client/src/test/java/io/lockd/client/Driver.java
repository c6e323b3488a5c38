package io.lockd.client;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.IntConsumer;
import java.util.stream.Collectors;

/**
 * The driver of the conformance scenarios for Java: commands as lines of JSON on stdin, answers and events on stdout.
 *
 * <pre>java -cp 'lockd-client.jar:test-classes' io.lockd.client.Driver</pre>
 */
public final class Driver {
    /** What a command answers, or throws. */
    private interface Op {
        Map<String, Object> run(Command c) throws Exception;
    }

    /** A command, with its fields. */
    private record Command(long id, Map<String, Object> fields, CompletableFuture<Void> answered) {
        Command(Map<String, Object> fields) {
            this((Long) fields.getOrDefault("id", 0L), fields, new CompletableFuture<>());
        }

        String text(String name) {
            Object v = fields.get(name);
            return v == null ? "" : (String) v;
        }

        boolean has(String name) {
            return fields.get(name) != null;
        }

        int number(String name) {
            return has(name) ? ((Long) fields.get(name)).intValue() : 0;
        }

        boolean flag(String name) {
            return Boolean.TRUE.equals(fields.get(name));
        }

        Duration millis(String name) {
            return Duration.ofMillis(has(name) ? (Long) fields.get(name) : 0);
        }

        @SuppressWarnings("unchecked")
        <T> List<T> list(String name) {
            return (List<T>) fields.get(name);
        }
    }

    private final PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false,
        StandardCharsets.UTF_8);
    private final ExecutorService commands = Executors.newCachedThreadPool(task -> {
        Thread t = new Thread(task, "driver");
        t.setDaemon(true);
        return t;
    });
    private final Map<String, LockdClient> clients = new ConcurrentHashMap<>();
    /** Names of clients, by that of the one they are of, and their TTL. */
    private final Map<String, String> ofTtl = new ConcurrentHashMap<>();
    private final Map<String, Held> holds = new ConcurrentHashMap<>();
    private final Map<String, Term> terms = new ConcurrentHashMap<>();
    private final Map<String, AutoCloseable> watches = new ConcurrentHashMap<>();
    /** What ends each wait, and those that are to end: a command may be cancelled before it has begun. */
    private final Map<Long, Runnable> waits = new ConcurrentHashMap<>();
    private final Set<Long> cancelled = ConcurrentHashMap.newKeySet();
    private final Map<String, Op> ops = Map.ofEntries(
        Map.entry("connect", this::connect), Map.entry("with_ttl", this::withTtl),
        Map.entry("close", this::close), Map.entry("lock", this::lock), Map.entry("lock_all", this::lockAll), Map.entry("cancel", this::cancel), Map.entry("unlock", this::unlock),
        Map.entry("extend", c -> done(() -> held(c).extend(c.millis("lease")))),
        Map.entry("shorten", c -> done(() -> held(c).shorten(c.millis("lease")))),
        Map.entry("make_fixed", c -> done(() -> held(c).makeFixed(c.millis("lease")))),
        Map.entry("make_auto", c -> done(() -> held(c).makeAuto())),
        Map.entry("keep_permits", c -> Map.of("left", held(c).keepPermits(c.number("permits")))),
        Map.entry("state", this::state), Map.entry("look", this::look),
        Map.entry("holds", c -> Map.of("names", client(c).holds(c.text("prefix")).stream().map(HoldInfo::name)
            .sorted().collect(Collectors.toList()))),
        Map.entry("set_limit", c -> Map.of("previous", client(c).setLimit(c.text("name"), c.number("limit")))),
        Map.entry("watch", this::watch), Map.entry("unwatch", this::unwatch), Map.entry("campaign", this::campaign),
        Map.entry("resign", this::resign), Map.entry("observe", this::observe));

    private Driver() { }

    public static void main(String[] args) throws Exception {
        new Driver().serve();
    }

    private void serve() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (!line.isBlank()) {
                Map<String, Object> fields = Json.read(line);
                Command c = new Command(fields);
                if (c.text("op").equals("connect")) { // it asks nobody, and others may follow at once
                    answer(c);
                } else {
                    commands.execute(() -> answer(c));
                }
            }
        }
        clients.values().forEach(LockdClient::close);
    }

    private void say(Map<String, Object> line) {
        byte[] text = (Json.write(line) + "\n").getBytes(StandardCharsets.UTF_8);
        out.write(text, 0, text.length); // one call, so that lines do not mix
        out.flush();
    }

    private void answer(Command c) {
        Map<String, Object> line = new LinkedHashMap<>(Map.of("id", c.id()));
        try {
            Op op = ops.get(c.text("op"));
            if (op == null) {
                line.putAll(Map.of("error", "UNSUPPORTED", "message", c.text("op")));
            } else {
                line.put("ok", op.run(c));
            }
        } catch (Exception e) {
            line.put("error", word(e));
            line.put("message", String.valueOf(e.getMessage()));
            line.put("detail", detail(e));
        }
        say(line);
        c.answered().complete(null);
    }

    /** Says what follows from a command, after its answer. */
    private void follows(Command c, Map<String, Object> event) {
        c.answered().join();
        say(event);
    }

    private static Map<String, Object> detail(Exception e) {
        if (e instanceof LockHeldException h) {
            return Map.of("name", h.name(), "held_by", h.heldBy(), "client", h.client(), "annotation", h.annotation(),
                "address", h.peer(), "held_for", h.heldFor().toMillis(), "retry_after", h.retryAfter().toMillis());
        }
        if (e instanceof LockLostException l) {
            return Map.of("reason", l.lostReason().name());
        }
        Map<String, Object> all = new LinkedHashMap<>();
        if (e instanceof LockdException l) {
            l.metadata().forEach((name, value) -> all.put(name, name.equals("limit") ? (Object) Long.valueOf(value)
                : value));
        }
        return all;
    }

    /** The word for a failure: the SDK's own, or the reason of the server. */
    private static String word(Exception e) {
        if (e instanceof InterruptedException || e instanceof CancellationException) {
            return "CANCELLED";
        }
        if (!(e instanceof LockdException)) {
            return e instanceof IllegalArgumentException ? "INVALID" : "INTERNAL";
        }
        switch (((LockdException) e).reason()) {
            case "LOCK_BUSY":
                return "HELD";
            case "WAIT_TIMEOUT":
                return "TIMED_OUT";
            case "LOCK_LOST":
                return "LOST";
            case "LOCK_NOT_HELD":
                return "NOT_HELD";
            case "CLIENT_CLOSED":
                return "CLOSED";
            default:
                return ((LockdException) e).reason();
        }
    }

    private LockdClient client(Command c) {
        LockdClient client = clients.get(c.text("client"));
        if (client == null) {
            throw new IllegalArgumentException("no client " + c.text("client"));
        }
        return client;
    }

    private Held held(Command c) {
        Held held = holds.get(c.text("hold"));
        if (held == null) {
            throw new IllegalArgumentException("no hold " + c.text("hold"));
        }
        return held;
    }

    private static Map<String, Object> done(Runnable task) {
        task.run();
        return Map.of();
    }

    private Map<String, Object> connect(Command c) {
        String as = c.text("client");
        LockdClientBuilder b = LockdClient.builder(String.join(",", c.<String>list("addrs"))).name(c.text("name"))
            .actor(c.text("actor")).tokenFile(c.text("token_file"))
            .onStatus(s -> say(Map.of("event", "status", "client", ofTtl.getOrDefault(as + s.ttl(), as),
                "status", s.state().name())));
        if (c.has("session_ttl")) {
            b.sessionTtl(c.millis("session_ttl"));
        }
        if (c.has("answer_timeout")) {
            b.answerTimeout(c.millis("answer_timeout"));
        }
        if (c.flag("fail_on_deadlock")) {
            b.failOnDeadlock();
        }
        if (c.flag("release_on_disconnect")) {
            b.releaseOnDisconnect();
        }
        clients.put(as, b.build());
        return Map.of();
    }

    private Map<String, Object> withTtl(Command c) {
        Duration ttl = c.millis("session_ttl");
        ofTtl.put(c.text("client") + ttl, c.text("other"));
        clients.put(c.text("other"), client(c).withTtl(ttl));
        return Map.of();
    }

    private Map<String, Object> close(Command c) {
        if (!client(c).closeAndConfirm()) {
            throw new OutcomeUnknownException("the server did not confirm it", "OUTCOME_UNKNOWN");
        }
        return Map.of();
    }

    private static LockKind kind(String name) {
        return name.isEmpty() ? LockKind.EXCLUSIVE : LockKind.valueOf(name.toUpperCase());
    }

    /** Acquires as the fields say, in a way that cancel ends. */
    private <H> H acquire(Command c, Request<?, H> r) throws Exception {
        IntConsumer queued = ahead -> say(Map.of("event", "queued", "id", c.id(), "ahead", ahead));
        r.annotation(c.text("annotation")).holder(c.text("holder")).actor(c.text("actor")).onQueued(queued);
        if (c.has("wait")) {
            r.waitUpTo(c.millis("wait"));
        }
        if (c.has("lease")) {
            r.lease(c.millis("lease"));
        }
        if (c.has("max_hold")) {
            r.maxHold(c.millis("max_hold"));
        }
        return c.number("way") == 1 ? waitForFuture(c, r.acquireAsync()) : waitHere(c, r::acquire);
    }

    /** Has cancel interrupt the thread that waits. */
    private <T> T waitHere(Command c, Callable<T> wait) throws Exception {
        begins(c, Thread.currentThread()::interrupt);
        try {
            return wait.call();
        } finally {
            waits.remove(c.id());
        }
    }

    /** Has cancel cancel the future. */
    private <T> T waitForFuture(Command c, CompletableFuture<T> future) throws Exception {
        begins(c, () -> future.cancel(true));
        try {
            return future.get();
        } catch (ExecutionException e) {
            throw (Exception) e.getCause();
        } finally {
            waits.remove(c.id());
        }
    }

    private void begins(Command c, Runnable end) {
        waits.put(c.id(), end);
        if (cancelled.contains(c.id())) {
            end(c.id());
        }
    }

    private void end(long id) {
        Runnable end = waits.remove(id);
        if (end != null) {
            end.run();
        }
    }

    private Map<String, Object> lock(Command c) throws Exception {
        LockRequest r = client(c).lock(c.text("name")).kind(kind(c.text("kind")));
        if (c.text("kind").equals("semaphore")) {
            r.semaphore(c.number("permits"), c.number("limit"));
        }
        return Map.of("fence", keep(c, c.text("hold"), acquire(c, r)));
    }

    private long keep(Command c, String as, Held h) {
        holds.put(as, h);
        h.onLost(lost -> follows(c, Map.of("event", "lost", "hold", as, "reason", lost.lostReason().name(),
            "by", lost.by(), "why", lost.why(), "max_hold", lost.maxHold())));
        return h.fence();
    }

    private Map<String, Object> lockAll(Command c) throws Exception {
        List<LockItem> items = new ArrayList<>();
        for (Map<String, Object> fields : c.<Map<String, Object>>list("items")) {
            Command i = new Command(fields);
            items.add(new LockItem(i.text("name"), kind(i.text("kind")), i.number("permits"), i.number("limit")));
        }
        HeldAll all = acquire(c, client(c).lockAll(items));
        List<Long> fences = new ArrayList<>();
        for (int i = 0; i < items.size(); i++) {
            fences.add(keep(c, c.<String>list("holds").get(i), all.all().get(i)));
        }
        return Map.of("fences", fences);
    }

    private Map<String, Object> cancel(Command c) {
        Long target = (Long) c.fields().get("target");
        cancelled.add(target);
        end(target);
        return Map.of();
    }

    private Map<String, Object> unlock(Command c) {
        held(c).unlock();
        return Map.of();
    }

    private Map<String, Object> state(Command c) {
        Held h = held(c);
        try {
            h.check();
            return Map.of("held", true, "fence", h.fence(), "remaining", h.remaining().toMillis());
        } catch (LockLostException e) {
            return Map.of("held", false, "reason", e.lostReason().name());
        } catch (LockdException e) {
            return Map.of("held", false, "reason", "UNLOCKED");
        }
    }

    private Map<String, Object> look(Command c) {
        LockInfo i = client(c).look(c.text("name"));
        return Map.of("held", i.held(), "fence", i.fence(), "waiting", Math.max(i.waiters(), i.queued()),
            "kind", i.kind() == null ? "" : i.kind().name().toLowerCase());
    }

    private Map<String, Object> watch(Command c) {
        String as = c.text("watch");
        watches.put(as, client(c).watch(c.text("name"), u -> follows(c, Map.of("event", "unlocked", "watch", as,
            "name", u.name(), "cause", u.cause(), "fence", u.fence(), "merged", u.merged(), "gap", u.gap()))));
        return Map.of();
    }

    private Map<String, Object> unwatch(Command c) throws Exception {
        watches.remove(c.text("watch")).close();
        return Map.of();
    }

    private Map<String, Object> campaign(Command c) throws Exception {
        Election e = client(c).election(c.text("election"));
        Term t = waitHere(c, () -> c.has("wait")
            ? e.campaign(c.text("candidate"), c.text("annotation"), c.millis("wait"))
            : e.campaign(c.text("candidate"), c.text("annotation")));
        terms.put(c.text("term"), t);
        return Map.of("fence", keep(c, c.text("term"), t.held()));
    }

    private Map<String, Object> resign(Command c) {
        terms.get(c.text("term")).resign();
        return Map.of();
    }

    private Map<String, Object> observe(Command c) {
        String as = c.text("observe");
        watches.put(as, client(c).election(c.text("election")).observe(l -> follows(c, Map.of("event", "leader",
            "observe", as, "name", l.id(), "annotation", l.annotation(), "fence", l.fence()))));
        return Map.of();
    }
}
