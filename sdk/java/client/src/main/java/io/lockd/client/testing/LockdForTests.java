package io.lockd.client.testing;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A lockd of its own for a test, on free ports of 127.0.0.1, with its locks in memory unless variables say otherwise.
 *
 * <pre>{@code
 * try (LockdForTests lockd = LockdForTests.start(Path.of("bin/lockd"));
 *      LockdClient client = LockdClient.connect(lockd.address())) {
 *     ...
 * }
 * }</pre>
 *
 * It ends with close, and at the latest with the JVM.
 */
public final class LockdForTests implements AutoCloseable {
    private static final Pattern SERVES = Pattern.compile("\"msg\":\"lockd serves\"");
    private static final long START_SECONDS = 60;

    private final Process process;
    private final Thread hook;
    private final StringBuffer log = new StringBuffer();
    private final String line;

    private LockdForTests(ProcessBuilder builder) throws IOException {
        process = builder.start();
        hook = new Thread(process::destroyForcibly);
        Runtime.getRuntime().addShutdownHook(hook);
        CompletableFuture<String> serves = new CompletableFuture<>();
        Thread reader = new Thread(() -> read(serves), "lockd-for-tests");
        reader.setDaemon(true);
        reader.start();
        try {
            line = serves.get(START_SECONDS, TimeUnit.SECONDS);
        } catch (Exception e) {
            close();
            throw new IOException("lockd does not start: " + log, e);
        }
    }

    /** Starts the program, with its locks in memory. The LOCKD_ variables of this process do not count. */
    public static LockdForTests start(Path program) {
        return start(program, Map.of());
    }

    /** Starts the program with variables of its configuration, such as LOCKD_SESSION_TTL. */
    public static LockdForTests start(Path program, Map<String, String> variables) {
        ProcessBuilder b = new ProcessBuilder(program.toString()).redirectErrorStream(true);
        b.environment().keySet().removeIf(name -> name.startsWith("LOCKD_"));
        for (String address : new String[] {"LOCKD_LISTEN", "LOCKD_OPS_LISTEN", "LOCKD_ADMIN_LISTEN"}) {
            b.environment().put(address, "127.0.0.1:0");
        }
        b.environment().put("LOCKD_LOG_FORMAT", "json");
        b.environment().putAll(variables);
        try {
            return new LockdForTests(b);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void read(CompletableFuture<String> serves) {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(process.getInputStream(),
            StandardCharsets.UTF_8))) {
            for (String text = in.readLine(); text != null; text = in.readLine()) {
                log.append(text).append('\n');
                if (SERVES.matcher(text).find()) {
                    serves.complete(text);
                }
            }
        } catch (IOException e) {
            log.append(e);
        }
        serves.completeExceptionally(new IOException("it ended"));
    }

    private String field(String name) {
        Matcher m = Pattern.compile("\"" + name + "\":\"([^\"]*)\"").matcher(line);
        if (!m.find()) {
            throw new IllegalStateException(line);
        }
        return m.group(1);
    }

    /** Where clients connect. */
    public String address() {
        return field("listen");
    }

    /** Where operators connect, for {@code adminAddress}. */
    public String adminAddress() {
        return field("admin_listen");
    }

    /** The process, to stop it and have it go on. */
    public long pid() {
        return process.pid();
    }

    /** What it logged so far. */
    public String log() {
        return log.toString();
    }

    /** Asks it to stop, as an operator does, and does not wait for that. */
    public void stop() {
        process.destroy();
    }

    /** Waits until it has ended. */
    public void await() throws InterruptedException {
        process.waitFor();
    }

    /** Ends it at once, as a crash does. Doing it twice is fine. */
    @Override
    public void close() {
        process.destroyForcibly();
        try {
            process.waitFor(START_SECONDS, TimeUnit.SECONDS);
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (IllegalStateException e) {
            // the JVM is about to end, and the hook does it
        }
    }
}
