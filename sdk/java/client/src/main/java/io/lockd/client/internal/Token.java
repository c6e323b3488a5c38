package io.lockd.client.internal;

import io.grpc.Attributes;
import io.grpc.CallCredentials;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.SecurityLevel;
import io.grpc.Status;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.concurrent.Executor;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The token in a file. The file is looked at once a second at most, and read again when it has changed. Nothing of the
 * token is ever in an error.
 */
final class Token extends CallCredentials {
    private static final Metadata.Key<String> AUTHORIZATION =
        Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
    private static final int MOST_BYTES = 12 << 10;
    private static final long LOOK_NANOS = 1_000_000_000L;

    private final Path path;
    private final Executor work;
    private final ReentrantLock mutex = new ReentrantLock(); // guards the fields below
    private String header;
    private FileTime modified;
    private long size;
    private long looked;

    Token(String path, Executor work) {
        this.path = Path.of(path);
        this.work = work;
    }

    @Override
    public void applyRequestMetadata(RequestInfo info, Executor executor, MetadataApplier applier) {
        if (info.getSecurityLevel() != SecurityLevel.PRIVACY_AND_INTEGRITY && !local(info.getTransportAttrs())) {
            applier.fail(Status.UNAUTHENTICATED.withDescription(
                "a token is not sent in clear text to another machine: this needs TLS"));
            return;
        }
        work.execute(() -> {
            try {
                Metadata headers = new Metadata();
                headers.put(AUTHORIZATION, read());
                applier.apply(headers);
            } catch (IOException e) { // it can be corrected
                applier.fail(Status.UNAVAILABLE.withDescription("the token file " + path + ": " + e.getMessage()));
            }
        });
    }

    private static boolean local(Attributes attributes) {
        SocketAddress to = attributes.get(Grpc.TRANSPORT_ATTR_REMOTE_ADDR);
        return to instanceof InetSocketAddress && ((InetSocketAddress) to).getAddress().isLoopbackAddress();
    }

    String read() throws IOException {
        mutex.lock();
        try {
            if (header != null && System.nanoTime() - looked < LOOK_NANOS) {
                return header;
            }
            FileTime now = Files.getLastModifiedTime(path);
            long bytes = Files.size(path);
            if (header == null || !now.equals(modified) || bytes != size) {
                header = null;
                header = "Bearer " + token();
                modified = now;
                size = bytes;
            }
            looked = System.nanoTime();
            return header;
        } finally {
            mutex.unlock();
        }
    }

    private String token() throws IOException {
        String token = Files.readString(path).strip();
        if (token.isEmpty()) {
            throw new IOException("it is empty");
        }
        if (token.length() > MOST_BYTES) {
            throw new IOException("it has more than " + MOST_BYTES + " bytes");
        }
        if (token.chars().anyMatch(c -> c <= ' ' || c > '~')) {
            throw new IOException("it has characters that no token has");
        }
        return token;
    }
}
