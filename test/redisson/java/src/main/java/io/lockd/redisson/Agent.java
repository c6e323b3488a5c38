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
 * <p>The verb {@code connect WHERE WATCHDOG_MS} makes the client, {@code disconnect} ends it. {@code waits WORKER} tells
 * whether another worker waits for a message. What else there is {@link Worker} knows.
 *
 * <p>WHERE is {@code redis://HOST:PORT}, {@code sentinel://MASTER@HOST:PORT,...}, {@code cluster://HOST:PORT,...} or
 * {@code redlock://HOST:PORT,...}. The last makes a client of Redisson for each address.
 */
public final class Agent {
    /** How often a client looks who is the master, or who has which slots. */
    private static final int SCAN_MS = 500;

    private final PrintStream out;
    private final Map<String, List<RedissonClient>> clients = new ConcurrentHashMap<>();
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
            line = id + " error " + causes(e).replaceAll("\\s+", " ");
        }
        synchronized (out) {
            out.print(line + "\n");
            out.flush();
        }
    }

    private static String causes(Throwable e) {
        return e.getCause() == null ? e.toString() : e + ", because of " + causes(e.getCause());
    }

    private String connect(String client, String where, long watchdogMs) {
        String scheme = where.substring(0, where.indexOf("://"));
        String rest = where.substring(scheme.length() + 3);
        List<RedissonClient> members = Arrays.stream(scheme.equals("redlock") ? rest.split(",") : new String[] {rest})
                .map(addrs -> create(scheme, addrs, watchdogMs))
                .toList();
        clients.put(client, members);
        return members.get(0).getId();
    }

    private static RedissonClient create(String scheme, String rest, long watchdogMs) {
        Config config = new Config().setLockWatchdogTimeout(watchdogMs).setThreads(8).setNettyThreads(4);
        String[] urls = Arrays.stream(rest.substring(rest.indexOf('@') + 1).split(","))
                .map("redis://"::concat)
                .toArray(String[]::new);
        switch (scheme) {
            case "sentinel" -> config.useSentinelServers().addSentinelAddress(urls)
                    .setMasterName(rest.substring(0, rest.indexOf('@'))).setScanInterval(SCAN_MS)
                    .setMasterConnectionMinimumIdleSize(4).setSlaveConnectionMinimumIdleSize(1);
            case "cluster" -> config.useClusterServers().addNodeAddress(urls).setScanInterval(SCAN_MS)
                    .setMasterConnectionMinimumIdleSize(4).setSlaveConnectionMinimumIdleSize(1);
            default -> config.useSingleServer().setAddress(urls[0]).setConnectionMinimumIdleSize(4);
        }
        return Redisson.create(config);
    }

    private String disconnect(String client) {
        List<RedissonClient> members = clients.remove(client);
        if (members != null) {
            members.parallelStream().forEach(RedissonClient::shutdown);
        }
        workers.keySet().removeIf(key -> key.startsWith(client + " "));
        return "";
    }
}
