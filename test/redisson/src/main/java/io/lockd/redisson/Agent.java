package io.lockd.redisson;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Does with Redisson what the Go tests say, and ends when they are gone.
 *
 * <p>A line on stdin is {@code ID CLIENT WORKER VERB ARGS...}, without blanks inside of words. Each worker of a client
 * is a thread of its own, which does its commands one after the other: Redisson's locks belong to threads. A line on
 * stdout is {@code ID ok VALUE} or {@code ID error TEXT}. Answers come when they are there, in any order.
 *
 * <p>The verb {@code connect REDIS_URL WATCHDOG_MS} makes the client, {@code disconnect} ends it. {@code waits
 * WORKER} tells whether another worker waits for a message. What else there is {@link Worker} knows.
 */
public final class Agent {
    private final PrintStream out;
    private final Map<String, RedissonClient> clients = new ConcurrentHashMap<>();
    private final Map<String, Worker> workers = new ConcurrentHashMap<>();

    private Agent(PrintStream out) {
        this.out = out;
    }

    /** Reads commands until there are no more. */
    public static void main(String[] args) throws IOException {
        Agent agent = new Agent(System.out);
        System.setOut(System.err); // nobody else writes between the answers
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                agent.command(Arrays.asList(line.split(" ")));
            }
        }
        Runtime.getRuntime().halt(0); // as a crash: workers may be waiting for a lock
    }

    private void command(List<String> words) {
        String id = words.get(0);
        String client = words.get(1);
        String name = words.get(2);
        String verb = words.get(3);
        List<String> args = words.subList(4, words.size());
        Worker worker = workers.computeIfAbsent(client + " " + name, key -> new Worker(name));
        worker.submit(() -> answer(id, () -> switch (verb) {
            case "connect" -> connect(client, args.get(0), Long.parseLong(args.get(1)));
            case "disconnect" -> disconnect(client);
            case "waits" -> workers.get(client + " " + args.get(0)).waits();
            default -> worker.perform(clients.get(client), verb, args);
        }));
    }

    /** What a command does. */
    @FunctionalInterface
    private interface Body {
        Object run() throws Exception;
    }

    private void answer(String id, Body body) {
        String line;
        try {
            line = id + " ok " + body.run();
        } catch (Exception | LinkageError e) {
            line = id + " error " + e.toString().replaceAll("\\s+", " ");
        }
        synchronized (out) {
            out.print(line + "\n");
            out.flush();
        }
    }

    private String connect(String client, String url, long watchdogMs) {
        Config config = new Config().setLockWatchdogTimeout(watchdogMs).setThreads(8).setNettyThreads(4);
        config.useSingleServer().setAddress(url).setConnectionMinimumIdleSize(4);
        RedissonClient redisson = Redisson.create(config);
        clients.put(client, redisson);
        return redisson.getId();
    }

    private String disconnect(String client) {
        RedissonClient redisson = clients.remove(client);
        if (redisson != null) {
            redisson.shutdown();
        }
        workers.keySet().removeIf(key -> key.startsWith(client + " "));
        return "";
    }
}
