package io.lockd.redisson;

import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.redisson.RedissonRedLock;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/**
 * One thread that holds locks.
 *
 * <p>Kinds are {@code lock}, {@code fair}, {@code fenced}, {@code read}, {@code write}, {@code semaphore}, {@code
 * multi}, whose name is a list such as {@code lock:a,read:b}, or one of the first five with {@code red-} in front: a
 * RedLock of that kind over all servers of the client. Times are in milliseconds; a lease of 0 is renewed by
 * Redisson's watchdog, or lasts for ever where it has none.
 */
final class Worker {
    private final BlockingQueue<Runnable> commands = new LinkedBlockingQueue<>();
    private final Map<String, Deque<List<String>>> permits = new HashMap<>(); // the ids held, by name

    private final Thread thread;

    Worker(String name) {
        thread = new Thread(this::run, name);
        thread.setDaemon(true);
        thread.start();
    }

    void submit(Runnable command) {
        commands.add(command);
    }

    /** Whether the thread waits to be told that a lock was released. Before and after that it asks Redis, or runs. */
    boolean waits() {
        return Arrays.stream(thread.getStackTrace())
                .anyMatch(frame -> frame.getClassName().equals("java.util.concurrent.Semaphore"));
    }

    private void run() {
        try {
            while (true) {
                commands.take().run();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // the process ends
        }
    }

    /** Does a command in this thread and returns what it is to be answered. */
    Object perform(List<RedissonClient> members, String verb, List<String> args) throws Exception {
        if (members == null) {
            throw new IllegalStateException("not connected");
        }
        RedissonClient redisson = members.get(0);
        if (verb.equals("owner")) {
            return redisson.getId() + ":" + Thread.currentThread().getId();
        }
        String kind = args.get(0);
        String name = args.get(1);
        List<String> rest = args.subList(2, args.size());
        return switch (verb) {
            case "acquire" -> acquire(members, kind, name, numbers(rest));
            case "try" -> tryAcquire(members, kind, name, numbers(rest));
            case "release" -> release(members, kind, name);
            case "visit" -> visit(members, kind, name, rest);
            default -> kind.equals("semaphore")
                    ? askSemaphore(redisson.getPermitExpirableSemaphore(name), verb, numbers(rest))
                    : askLock(lock(members, kind, name), verb);
        };
    }

    private static long[] numbers(List<String> words) {
        return words.stream().mapToLong(Long::parseLong).toArray();
    }

    static RLock lock(List<RedissonClient> members, String kind, String name) {
        if (kind.startsWith("red-")) {
            return redLock(members, kind.substring("red-".length()), name);
        }
        RedissonClient redisson = members.get(0);
        return switch (kind) {
            case "lock" -> redisson.getLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "fenced" -> redisson.getFencedLock(name);
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            case "multi" -> redisson.getMultiLock(Arrays.stream(name.split(","))
                    .map(part -> part.split(":", 2))
                    .map(part -> lock(members, part[0], part[1]))
                    .toArray(RLock[]::new));
            default -> throw new IllegalArgumentException("no kind " + kind);
        };
    }

    @SuppressWarnings("deprecation") // it is there, and in use
    private static RLock redLock(List<RedissonClient> members, String kind, String name) {
        return new RedissonRedLock(members.stream()
                .map(member -> lock(List.of(member), kind, name))
                .toArray(RLock[]::new));
    }

    /** acquire KIND NAME LEASE [PERMITS]: waits as long as it takes; the answer is the token, 0 where there is none. */
    private long acquire(List<RedissonClient> members, String kind, String name, long... args) throws InterruptedException {
        long lease = args[0];
        if (kind.equals("semaphore")) {
            keep(name, members.get(0).getPermitExpirableSemaphore(name)
                    .acquire(args.length > 1 ? (int) args[1] : 1, lease > 0 ? lease : -1, TimeUnit.MILLISECONDS));
            return 0;
        }
        if (kind.equals("fenced") && lease == 0) {
            return members.get(0).getFencedLock(name).lockAndGetToken();
        }
        RLock lock = lock(members, kind, name);
        if (lease > 0) {
            lock.lock(lease, TimeUnit.MILLISECONDS);
        } else {
            lock.lock();
        }
        return lock instanceof RFencedLock fenced ? fenced.getToken() : 0;
    }

    /** try KIND NAME WAIT LEASE [PERMITS]: the answer says whether it was acquired. */
    private boolean tryAcquire(List<RedissonClient> members, String kind, String name, long... args)
            throws InterruptedException {
        long lease = args[1] > 0 ? args[1] : -1;
        if (!kind.equals("semaphore")) {
            return lock(members, kind, name).tryLock(args[0], lease, TimeUnit.MILLISECONDS);
        }
        List<String> ids = members.get(0).getPermitExpirableSemaphore(name)
                .tryAcquire(args.length > 2 ? (int) args[2] : 1, args[0], lease, TimeUnit.MILLISECONDS);
        if (ids == null || ids.isEmpty()) {
            return false;
        }
        keep(name, ids);
        return true;
    }

    private void keep(String name, List<String> ids) {
        permits.computeIfAbsent(name, key -> new ArrayDeque<>()).push(new ArrayList<>(ids));
    }

    /** release KIND NAME: what this worker acquired last. */
    private String release(List<RedissonClient> members, String kind, String name) {
        if (kind.equals("semaphore")) {
            members.get(0).getPermitExpirableSemaphore(name).release(permits.get(name).peek());
            permits.get(name).pop(); // a release that failed is told again
        } else {
            lock(members, kind, name).unlock();
        }
        return "";
    }

    private static Object askLock(RLock lock, String verb) {
        return switch (verb) {
            case "force" -> lock.forceUnlock();
            case "count" -> lock.getHoldCount();
            case "ttl" -> lock.remainTimeToLive();
            case "locked" -> lock.isLocked();
            case "mine" -> lock.isHeldByCurrentThread();
            case "token" -> ((RFencedLock) lock).getToken();
            default -> throw new IllegalArgumentException("no verb " + verb);
        };
    }

    private static Object askSemaphore(RPermitExpirableSemaphore semaphore, String verb, long... args) {
        return switch (verb) {
            case "limit" -> semaphore.trySetPermits((int) args[0]);
            case "permits" -> semaphore.getPermits();
            case "available" -> semaphore.availablePermits();
            case "acquired" -> semaphore.acquiredPermits();
            default -> throw new IllegalArgumentException("no verb " + verb);
        };
    }

    /**
     * visit KIND NAME ROOM TIMES: enters a room as often, under the lock. Kind {@code rw} writes each third time and
     * reads in between. The answer is the first thing that was wrong, or nothing.
     */
    private String visit(List<RedissonClient> members, String kind, String name, List<String> args) throws Exception {
        Room room = new Room(Path.of(args.get(0)), Thread.currentThread().getName());
        int times = Integer.parseInt(args.get(1));
        for (int i = 0; i < times; i++) {
            String now = !kind.equals("rw") ? kind : i % 3 == 0 ? "write" : "read";
            long token = acquire(members, now, name, 0);
            try {
                room.enter(now, token);
            } finally {
                release(members, now, name);
            }
        }
        return room.fault();
    }
}
