package io.lockd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What is left of a client that is closed while it connects. */
@Timeout(value = 3, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class CloseTest {
    /** Keeps what gRPC says of connections that nobody has ended. */
    private static final class Left extends Handler {
        private final List<String> told = new CopyOnWriteArrayList<>();

        @Override
        public void publish(LogRecord r) {
            if (r.getMessage().contains("garbage collected")) {
                told.add(r.getMessage());
            }
        }

        @Override
        public void flush() { }

        @Override
        public void close() { }
    }

    private static void run(String... command) throws Exception {
        assertEquals(0, new ProcessBuilder(command).inheritIO().start().waitFor());
    }

    /** The authorities are in a pipe, so a client connects for as long as nothing comes out of it. */
    @Test
    void aConnectionThatIsMadeAfterTheEndIsEnded(@TempDir Path dir) throws Exception {
        Path pem = dir.resolve("pem");
        Path pipe = dir.resolve("pipe");
        String keytool = Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
        String store = dir.resolve("store").toString();
        run(keytool, "-genkeypair", "-alias", "ca", "-keyalg", "EC", "-dname", "CN=ca", "-storepass", "secret",
            "-keystore", store);
        run(keytool, "-exportcert", "-rfc", "-alias", "ca", "-storepass", "secret", "-keystore", store, "-file",
            pem.toString());
        run("mkfifo", pipe.toString());
        byte[] authorities = Files.readAllBytes(pem);
        Left left = new Left();
        Logger root = Logger.getLogger("");
        root.addHandler(left);
        try {
            for (int i = 0; i < 5; i++) { // whoever connects next finds those that were left
                CompletableFuture<Void> checked = CompletableFuture.runAsync(() -> say(pipe, authorities, () -> { }));
                LockdClient c = LockdClient.builder("127.0.0.1:1").trust(pipe.toString()).build();
                checked.get();
                c.lock("closed").acquireAsync();
                say(pipe, authorities, c::close);
                Thread.sleep(100);
                System.gc();
                Thread.sleep(100);
            }
        } finally {
            root.removeHandler(left);
        }
        assertEquals(List.of(), left.told);
    }

    /** Says something to whoever reads the pipe, after something else was done. */
    private static void say(Path pipe, byte[] what, Runnable before) {
        try (OutputStream out = new FileOutputStream(pipe.toFile())) { // it waits for the reader
            before.run();
            out.write(what);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
