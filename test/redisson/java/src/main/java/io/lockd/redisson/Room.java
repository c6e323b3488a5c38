package io.lockd.redisson;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/**
 * A directory that both sides enter, as room_test.go describes it. What happens inside takes long enough to be seen by
 * who comes in without having the lock.
 */
final class Room {
    private static final long STAY_NANOS = 100_000;

    private final Path counter;
    private final Path inside;
    private final int limit;
    private final String who;
    private String fault = "";

    Room(Path dir, String who) throws IOException {
        this.counter = dir.resolve("counter");
        this.inside = dir.resolve("inside");
        this.limit = Integer.parseInt(Files.readString(dir.resolve("limit")));
        this.who = who;
    }

    /** The first thing that was wrong, or nothing. */
    String fault() {
        return fault;
    }

    /** Makes one visit. The token is compared with those of earlier visits unless it is 0. */
    void enter(String kind, long token) throws IOException {
        String role = kind.equals("read") ? "r" : kind.equals("semaphore") && limit > 1 ? "p" : "w";
        Path mark = inside.resolve(role + "-redisson-" + who);
        Files.createFile(mark);
        try {
            look(role);
            switch (role) {
                case "w" -> change(token);
                case "r" -> read();
                default -> LockSupport.parkNanos(STAY_NANOS);
            }
        } finally {
            Files.delete(mark);
        }
    }

    private void look(String role) throws IOException {
        List<String> all;
        try (Stream<Path> paths = Files.list(inside)) {
            all = paths.map(path -> path.getFileName().toString()).toList();
        }
        boolean fine = switch (role) {
            case "w" -> all.size() == 1;
            case "r" -> all.stream().allMatch(name -> name.startsWith("r"));
            default -> all.size() <= limit;
        };
        if (!fine) {
            wrong(who + " met " + all);
        }
    }

    private void change(long token) throws IOException {
        String[] old = Files.readString(counter).split(" ");
        LockSupport.parkNanos(STAY_NANOS);
        if (old.length != 4) {
            wrong("read half a counter");
            return;
        }
        long last = Long.parseLong(old[1]);
        if (token != 0 && token <= last) {
            wrong("token " + token + " after " + last);
        }
        long turns = Long.parseLong(old[3]) + (old[2].equals("redisson") ? 0 : 1);
        Files.writeString(counter, Long.parseLong(old[0]) + 1 + " " + Math.max(token, last) + " redisson " + turns);
    }

    private void read() throws IOException {
        String before = Files.readString(counter);
        LockSupport.parkNanos(STAY_NANOS);
        String after = Files.readString(counter);
        if (!before.equals(after)) {
            wrong("read " + before + ", then " + after);
        }
    }

    private void wrong(String what) {
        if (fault.isEmpty()) {
            fault = what;
        }
    }
}
