package io.lockd.client.internal;

import io.grpc.CallCredentials;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.NettyChannelBuilder;
import io.lockd.v1.SessionRequest;
import io.lockd.v1.SessionResponse;
import io.lockd.v1.SessionServiceGrpc;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.ssl.SslContextBuilder;
import java.io.File;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;

/** Makes connections. Files, and names of hosts, are looked at by threads of their own, never by the loop. */
public final class Channels {
    /** How far the server may send ahead of what this client reads. A fixed value saves a ping for each frame. */
    private static final int WINDOW = 512 << 10;
    /** Bounds a message of the server. Opened tells of all holds of a session that goes on. */
    private static final int LARGEST = 16 << 20;

    private final Settings settings;
    private final Loop loop;
    private final CallCredentials token;
    private final Map<String, ManagedChannel> unary = new ConcurrentHashMap<>();
    private final ThreadPoolExecutor work = new ThreadPoolExecutor(0, 16, 1, TimeUnit.SECONDS, new SynchronousQueue<>(),
        task -> {
            Thread t = new Thread(task, "lockd-connecting");
            t.setDaemon(true);
            return t;
        });

    Channels(Settings settings, Loop loop) {
        this.settings = settings;
        this.loop = loop;
        token = settings.tokenFile == null ? null : new Token(settings.tokenFile, work);
    }

    /** Throws if the files that were named cannot be used. */
    public void check() throws IOException {
        if (token != null) {
            ((Token) token).read();
        }
        if (settings.tls != null) {
            ssl();
        }
    }

    /** Makes a connection, which connects when it is used; tells it, or why there is none, in the loop. */
    void open(String target, BiConsumer<ManagedChannel, Failure> made) {
        try {
            work.execute(() -> {
                try {
                    ManagedChannel channel = channel(target);
                    loop.execute(() -> made.accept(channel, null));
                    if (loop.over()) { // nobody gets it: the client was closed meanwhile
                        channel.shutdownNow();
                    }
                } catch (IOException | RuntimeException e) {
                    loop.execute(() -> made.accept(null, Failure.of(Fault.UNAVAILABLE,
                        String.valueOf(e.getMessage()))));
                }
            });
        } catch (RejectedExecutionException e) {
            loop.execute(() -> made.accept(null, Failure.of(Fault.UNAVAILABLE, "too many connections are being made")));
        }
    }

    private ManagedChannel channel(String target) throws IOException {
        NettyChannelBuilder b = NettyChannelBuilder.forTarget(target)
            .eventLoopGroup(loop.group())
            .channelType(NioSocketChannel.class)
            .executor(loop)
            .offloadExecutor(work)
            .keepAliveTime(20, TimeUnit.SECONDS)
            .keepAliveTimeout(10, TimeUnit.SECONDS)
            .flowControlWindow(WINDOW)
            .maxInboundMessageSize(LARGEST)
            .disableServiceConfigLookUp()
            .disableRetry();
        if (settings.tls == null) {
            return b.usePlaintext().build();
        }
        if (settings.tls.serverName() != null) {
            b.overrideAuthority(settings.tls.serverName());
        }
        return b.sslContext(ssl()).build();
    }

    private io.netty.handler.ssl.SslContext ssl() throws IOException {
        Settings.Tls t = settings.tls;
        SslContextBuilder b = GrpcSslContexts.forClient();
        try {
            if (t.caFile() != null) {
                b.trustManager(new File(t.caFile()));
            }
            if (t.certFile() != null) {
                b.keyManager(new File(t.certFile()), new File(t.keyFile()));
            }
            return b.build();
        } catch (IllegalArgumentException e) {
            throw new IOException("the certificates for TLS: " + e.getMessage(), e);
        }
    }

    ClientCall<SessionRequest, SessionResponse> session(ManagedChannel channel) {
        return channel.newCall(SessionServiceGrpc.getSessionMethod(), options());
    }

    /** The options of calls: with the token, if there is one. */
    public CallOptions options() {
        return token == null ? CallOptions.DEFAULT : CallOptions.DEFAULT.withCallCredentials(token);
    }

    /** A connection for unary calls, which all callers share. */
    public ManagedChannel unary(String target) {
        return unary.computeIfAbsent(target, t -> {
            try {
                return channel(t);
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        });
    }

    public String admin() {
        return settings.admin;
    }

    /** How many addresses there are. */
    public int targets() {
        return settings.targets.size();
    }

    /** An address for unary calls, another one for each number. */
    public String target(int number) {
        return settings.targets.get(number % settings.targets.size());
    }

    void close() {
        unary.values().forEach(ManagedChannel::shutdownNow);
        work.shutdown();
    }
}
