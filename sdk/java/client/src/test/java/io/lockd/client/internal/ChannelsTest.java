package io.lockd.client.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;

/** The connections of a client. */
class ChannelsTest {
    /** Keeps what gRPC says of connections that nobody ended. */
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

    @Test
    void whatIsMadeAfterTheEndIsEnded() throws Exception {
        Loop loop = new Loop("lockd-ended");
        Settings settings = new Settings(List.of("127.0.0.1:1"), null, null, 1, 0, null, null,
            news -> { }, Runnable::run);
        Channels channels = new Channels(settings, loop);
        loop.end();
        loop.awaitEnd();
        Left left = new Left();
        Logger root = Logger.getLogger("");
        root.addHandler(left);
        try {
            for (int i = 0; i < 10; i++) { // whoever makes the next one finds those that were left
                channels.open("127.0.0.1:1", (made, why) -> { });
                Thread.sleep(30);
                System.gc();
                Thread.sleep(30);
            }
        } finally {
            root.removeHandler(left);
            channels.close();
        }
        assertEquals(List.of(), left.told);
    }
}
