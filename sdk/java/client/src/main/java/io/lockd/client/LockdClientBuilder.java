package io.lockd.client;

import io.lockd.client.internal.Engine;
import io.lockd.client.internal.Settings;
import io.lockd.v1.DeadlockPolicy;
import io.lockd.v1.Feature;
import io.lockd.v1.OnDisconnect;
import io.lockd.v1.Open;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/** Options of a client. Durations that are not set are the defaults. */
public final class LockdClientBuilder {
    private static final Duration ANSWER = Duration.ofSeconds(5);

    private final Open.Builder open = Open.newBuilder()
        .addFeatures(Feature.FEATURE_BATCH).addFeatures(Feature.FEATURE_RESUME);
    private final String addresses;
    private String admin;
    private Duration answer = ANSWER;
    private Duration connectWait = Duration.ZERO;
    private boolean tls;
    private String caFile;
    private String certFile;
    private String keyFile;
    private String serverName;
    private String tokenFile;
    private Consumer<Status> onStatus;
    private Executor executor;

    LockdClientBuilder(String addresses) {
        this.addresses = addresses;
    }

    /** Tells people who look at locks which program this is. At most 128 bytes. */
    public LockdClientBuilder name(String name) {
        open.setClientName(name);
        return this;
    }

    /** Tells people more about this program. At most 32. */
    public LockdClientBuilder labels(Map<String, String> labels) {
        open.putAllLabels(labels);
        return this;
    }

    /** How long locks outlive the last sign of life of this client. Default: the server's, usually 30 s. */
    public LockdClientBuilder sessionTtl(Duration ttl) {
        open.setSessionTtl(com.google.protobuf.Duration.newBuilder().setSeconds(ttl.getSeconds())
            .setNanos(ttl.getNano()));
        return this;
    }

    /** How long an answer that is due is waited for. Default: 5 s. */
    public LockdClientBuilder answerTimeout(Duration timeout) {
        answer = timeout.isZero() || timeout.isNegative() ? ANSWER : timeout;
        return this;
    }

    /** How long a request that waits waits for a connection. Default: zero, no bound of its own. */
    public LockdClientBuilder connectWait(Duration wait) {
        connectWait = wait;
        return this;
    }

    /**
     * Has the server release everything as soon as the stream breaks. Others get the locks sooner; but this client may
     * notice later than the server that its stream broke, and in that moment a lock can have two holders.
     */
    public LockdClientBuilder releaseOnDisconnect() {
        open.setOnDisconnect(OnDisconnect.ON_DISCONNECT_RELEASE);
        return this;
    }

    /** Says that all that this client asks for is asked for by one thread of work. See {@link Request#actor}. */
    public LockdClientBuilder actor(String id) {
        open.setActor(id);
        return this;
    }

    /** Has a request fail with {@link DeadlockException} if it waits in a deadlock and came last. */
    public LockdClientBuilder failOnDeadlock() {
        open.setDeadlock(DeadlockPolicy.DEADLOCK_POLICY_FAIL);
        return this;
    }

    /** Speaks TLS, and trusts the authorities of the JDK. */
    public LockdClientBuilder tls() {
        tls = true;
        return this;
    }

    /** Speaks TLS, and trusts the authorities in a PEM file. It is read again for each connection. */
    public LockdClientBuilder trust(String caFile) {
        this.caFile = caFile;
        return tls();
    }

    /**
     * Speaks TLS, and shows a certificate. Both files are PEM, the key is PKCS 8; they are read for each connection.
     */
    public LockdClientBuilder certificate(String certFile, String keyFile) {
        this.certFile = certFile;
        this.keyFile = keyFile;
        return tls();
    }

    /** The name expected in the server's certificate, instead of the host of the address. */
    public LockdClientBuilder serverName(String name) {
        serverName = name;
        return tls();
    }

    /**
     * Shows the token in a file to the server. The file is read again for a new stream when it has changed. A token is
     * sent over TLS, or to a loopback address.
     */
    public LockdClientBuilder tokenFile(String path) {
        tokenFile = path == null || path.isEmpty() ? null : path;
        return this;
    }

    /**
     * Has a function told when the relation with the server changes, in order, by the thread for such calls. After
     * close no call begins. Of more than 64 changes that a slow function was not told yet the oldest are passed over. A
     * function that does not return keeps the others of this client for a second, and after that nothing but itself.
     * It is told of the clients of {@link LockdClient#withTtl}, too: {@link Status#ttl} says which.
     */
    public LockdClientBuilder onStatus(Consumer<Status> told) {
        onStatus = told;
        return this;
    }

    /** Where futures of this client are completed. Default: the client's own thread for calls, so be short there. */
    public LockdClientBuilder executor(Executor executor) {
        this.executor = executor;
        return this;
    }

    /** The address for operators ({@code admin_listen}), which forceUnlock needs. */
    public LockdClientBuilder adminAddress(String address) {
        admin = Addresses.read(address).get(0);
        return this;
    }

    /**
     * Makes the client. It does not connect yet.
     *
     * @throws IllegalArgumentException if an address, a name or a file cannot be used
     */
    public LockdClient build() {
        Settings.Tls files = tls ? new Settings.Tls(caFile, certFile, keyFile, serverName) : null;
        Consumer<Status> told = onStatus;
        Consumer<Settings.News> news = told == null ? null : n
            -> told.accept(new Status(Status.State.valueOf(n.state()),
            Duration.ofNanos(n.validNanos()), n.why() == null ? "" : n.why().toString(), n.session(),
            Duration.ofNanos(n.ttlNanos())));
        Settings settings = new Settings(Addresses.read(addresses), admin, open.build(),
            Settings.nanos(answer), Settings.nanos(connectWait), files, tokenFile, news, executor);
        Engine engine = new Engine(settings, open.getClientName().isEmpty() ? "client" : open.getClientName());
        try {
            engine.channels().check();
        } catch (IOException e) {
            engine.close();
            throw new IllegalArgumentException(e.getMessage(), e);
        }
        return new LockdClient(engine);
    }
}
