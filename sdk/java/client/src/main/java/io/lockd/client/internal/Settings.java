package io.lockd.client.internal;

import io.lockd.v1.Open;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/** What a client was made with. */
public final class Settings {
    /** Files for TLS, all PEM and each null if it is not used. */
    public record Tls(String caFile, String certFile, String keyFile, String serverName) { }

    /** A change of the relation with the server. */
    public record News(String state, long validNanos, Failure why, String session, long ttlNanos) { }

    /** More than anybody waits. */
    public static final Duration LONGEST = Duration.ofDays(3650);

    final List<String> targets;
    final String admin;
    final Open open;
    final long answerNanos;
    final long connectWaitNanos;
    final Tls tls;
    final String tokenFile;
    final Consumer<News> onStatus;
    final Executor executor;

    public Settings(List<String> targets, String admin, Open open, long answerNanos, long connectWaitNanos, Tls tls,
        String tokenFile, Consumer<News> onStatus, Executor executor) {
        this.targets = List.copyOf(targets);
        this.admin = admin;
        this.open = open;
        this.answerNanos = answerNanos;
        this.connectWaitNanos = connectWaitNanos;
        this.tls = tls;
        this.tokenFile = tokenFile;
        this.onStatus = onStatus;
        this.executor = executor;
    }

    /** A length of time in nanoseconds. It is cut to what is more than anybody waits, so that no sum overflows. */
    public static long nanos(Duration d) {
        return d.compareTo(LONGEST) < 0 ? d.toNanos() : LONGEST.toNanos();
    }

    /** What a server tells, cut likewise. */
    public static Duration duration(com.google.protobuf.Duration d) {
        return Duration.ofNanos(Beats.nanos(d));
    }

    /** The same with another TTL of the session. */
    Settings withTtl(long nanos) {
        return new Settings(targets, admin, open.toBuilder().setSessionTtl(Beats.duration(nanos)).build(), answerNanos,
            connectWaitNanos, tls, tokenFile, onStatus, executor);
    }
}
