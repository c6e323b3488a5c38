package io.lockd.redisson;

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
 * Locks and unlocks with Redisson as its documentation shows it, for the benchmarks in bench/.
 *
 * <p>The argument is the URL of a Redis. A line on stdin is {@code CALLERS MILLISECONDS}: so many threads lock and unlock
 * a name of their own for so long. The line on stdout is {@code PAIRS NANOSECONDS P50 P99}, the last two in nanoseconds.
 */
public final class Pairs {
    private Pairs() {
    }

    /** Reads commands until there are no more. */
    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // nobody else writes between the answers
        Config config = new Config();
        config.useSingleServer().setAddress(args[0]);
        RedissonClient redisson = Redisson.create(config);
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split(" ");
                out.println(run(redisson, Integer.parseInt(words[0]), Long.parseLong(words[1])));
            }
        }
        redisson.shutdown();
    }

    private static String run(RedissonClient redisson, int callers, long millis) throws Exception {
        List<Callable<long[]>> tasks = new ArrayList<>();
        long began = System.nanoTime();
        long end = began + millis * 1_000_000;
        for (int i = 0; i < callers; i++) {
            tasks.add(() -> call(redisson.getLock("bench:" + UUID.randomUUID()), end));
        }
        LongStream all = LongStream.empty();
        ExecutorService threads = Executors.newFixedThreadPool(callers);
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

    /** One caller: how long each of its pairs took. */
    private static long[] call(RLock lock, long end) {
        long[] times = new long[1 << 12];
        int n = 0;
        for (long began = System.nanoTime(); began < end; began = System.nanoTime()) {
            lock.lock();
            lock.unlock();
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
