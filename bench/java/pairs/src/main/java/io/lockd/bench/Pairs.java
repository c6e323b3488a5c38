package io.lockd.bench;

import io.lockd.client.LockdClient;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.LongStream;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Locks and unlocks as the documentation of each way shows it, for the benchmarks in bench/.
 *
 * <p>The arguments are {@code redisson}, {@code lockd} or {@code stubs}, and the address of a Redis or of a lockd. A line
 * on stdin is {@code CALLERS MILLISECONDS}: so many threads lock and unlock a name of their own for so long. The line on
 * stdout is {@code PAIRS NANOSECONDS P50 P99}, the last two in nanoseconds.
 */
public final class Pairs {
    /** One caller's lock and unlock. */
    interface Pair {
        void run() throws Exception;
    }

    /** A way to lock. */
    interface Peer extends AutoCloseable {
        Pair caller(int number, String name) throws Exception;
    }

    private Pairs() { }

    /** Reads commands until there are no more. */
    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // nobody else writes between the answers
        try (Peer peer = peer(args[0], args[1]);
             BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split(" ");
                out.println(run(peer, Integer.parseInt(words[0]), Long.parseLong(words[1])));
            }
        }
    }

    private static Peer peer(String name, String address) throws Exception {
        switch (name) {
            case "redisson":
                return redisson(address);
            case "lockd":
                return lockd(address);
            default:
                return new Stubs(address);
        }
    }

    private static Peer redisson(String address) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + address);
        RedissonClient redisson = Redisson.create(config);
        return new Peer() {
            @Override
            public Pair caller(int number, String name) {
                RLock lock = redisson.getLock(name);
                return () -> {
                    lock.lock();
                    lock.unlock();
                };
            }

            @Override
            public void close() {
                redisson.shutdown();
            }
        };
    }

    private static Peer lockd(String address) {
        LockdClient client = LockdClient.builder(address).name("bench").build();
        return new Peer() {
            @Override
            public Pair caller(int number, String name) {
                return () -> client.lock(name).acquire().unlock();
            }

            @Override
            public void close() {
                client.close();
            }
        };
    }

    private static String run(Peer peer, int callers, long millis) throws Exception {
        List<Pair> pairs = new ArrayList<>();
        for (int i = 0; i < callers; i++) {
            pairs.add(peer.caller(i, "bench:" + UUID.randomUUID()));
        }
        long began = System.nanoTime();
        long end = began + millis * 1_000_000;
        List<Callable<long[]>> tasks = new ArrayList<>();
        pairs.forEach(pair -> tasks.add(() -> call(pair, end)));
        LongStream all = LongStream.empty();
        ExecutorService threads = threads(callers);
        try {
            for (Future<long[]> times : threads.invokeAll(tasks)) {
                all = LongStream.concat(all, Arrays.stream(times.get()));
            }
        } finally {
            threads.shutdown();
        }
        long took = System.nanoTime() - began;
        long[] sorted = all.sorted().toArray();
        return sorted.length + " " + took + " " + quantile(sorted, 0.50) + " " + quantile(sorted, 0.99);
    }

    /** A thread for each caller: a virtual one if {@code -Dthreads=virtual} says so, for which Java must be of 21. */
    private static ExecutorService threads(int callers) throws ReflectiveOperationException {
        return "virtual".equals(System.getProperty("threads"))
            ? (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null)
            : Executors.newFixedThreadPool(callers);
    }

    /** One caller: how long each of its pairs took. */
    private static long[] call(Pair pair, long end) throws Exception {
        long[] times = new long[1 << 12];
        int n = 0;
        for (long began = System.nanoTime(); began < end; began = System.nanoTime()) {
            pair.run();
            if (n == times.length) {
                times = Arrays.copyOf(times, 2 * n);
            }
            times[n++] = System.nanoTime() - began;
        }
        return Arrays.copyOf(times, n);
    }

    private static long quantile(long[] sorted, double q) {
        return sorted.length == 0 ? 0 : sorted[Math.min((int) (q * sorted.length), sorted.length - 1)];
    }
}
