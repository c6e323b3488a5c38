package io.lockd.client;

import io.lockd.client.testing.LockdForTests;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;

/** A Redis, and lockds before it. The programs are those that LOCKD_BIN and REDIS_BIN name. */
final class World implements AutoCloseable {
    /** Bounds what should come soon. It is far more than a busy machine needs. */
    static final Duration PATIENCE = Duration.ofMinutes(1);

    static final Path LOCKD = Path.of(System.getenv().getOrDefault("LOCKD_BIN", "lockd"));

    final int redisPort;
    private final Process redis;
    private final Path dir;

    World() throws Exception {
        try (ServerSocket free = new ServerSocket(0)) {
            redisPort = free.getLocalPort();
        }
        dir = Files.createTempDirectory("lockd-java");
        redis = new ProcessBuilder(System.getenv().getOrDefault("REDIS_BIN", "redis-server"), "--port", "" + redisPort,
            "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--dir", dir.toString())
            .redirectErrorStream(true).redirectOutput(dir.resolve("log").toFile()).start();
        Runtime.getRuntime().addShutdownHook(new Thread(redis::destroyForcibly));
        until("Redis answers", () -> {
            try (Socket s = new Socket()) {
                s.connect(new InetSocketAddress("127.0.0.1", redisPort), 1000);
                return true;
            } catch (IOException e) {
                return false;
            }
        });
    }

    /** A lockd before the Redis. */
    LockdForTests lockd(String... variables) {
        Map<String, String> env = new HashMap<>(Map.of("LOCKD_STORE_KIND", "standalone",
            "LOCKD_REDIS_ADDR", "127.0.0.1:" + redisPort));
        for (int i = 0; i < variables.length; i += 2) {
            env.put(variables[i], variables[i + 1]);
        }
        return LockdForTests.start(LOCKD, env);
    }

    /** The addresses of servers that a property names, as NAME=ADDRESS,... */
    static Map<String, String> servers(String property) {
        Map<String, String> all = new HashMap<>();
        for (String server : System.getProperty(property).split(",")) {
            int at = server.lastIndexOf('=');
            all.put(server.substring(0, at), server.substring(at + 1));
        }
        return all;
    }

    static void signal(String signal, long pid) throws Exception {
        int code = new ProcessBuilder("kill", "-" + signal, "" + pid).inheritIO().start().waitFor();
        if (code != 0) {
            throw new IllegalStateException("kill " + code);
        }
    }

    /** Waits for something that has no signal. */
    static void until(String what, Callable<Boolean> holds) throws Exception {
        for (long end = System.nanoTime() + PATIENCE.toNanos(); !holds.call(); Thread.sleep(5)) {
            if (System.nanoTime() > end) {
                throw new AssertionError("not within " + PATIENCE + ": " + what);
            }
        }
    }

    /** Waits until the lease of a session was renewed after this call. It throws if the lock is lost before. */
    static void awaitRenewal(Held h, Duration ttl) throws Exception {
        long began = System.nanoTime();
        until("it is renewed", () -> {
            h.check();
            return System.nanoTime() - began + h.remaining().toNanos() > ttl.toNanos();
        });
    }

    @Override
    public void close() throws Exception {
        redis.destroyForcibly().waitFor();
        Files.deleteIfExists(dir.resolve("log"));
        Files.deleteIfExists(dir);
    }
}
