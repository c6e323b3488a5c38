package io.lockd.shedlock;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;

/** Passes on connections to a server, and drops what that answers once it is told to. */
final class Proxy implements AutoCloseable {
    private final ServerSocket listens = new ServerSocket(0, 0, InetAddress.getLoopbackAddress());
    private volatile boolean drops;

    Proxy(String address) throws IOException {
        int port = Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
        begin(() -> {
            while (true) {
                Socket from = listens.accept();
                Socket to = new Socket(InetAddress.getLoopbackAddress(), port);
                begin(() -> pass(from, to, false));
                begin(() -> pass(to, from, true));
            }
        });
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void begin(Work work) {
        Thread t = new Thread(() -> {
            try {
                work.run();
            } catch (IOException e) {
                // it was closed
            }
        });
        t.setDaemon(true);
        t.start();
    }

    private void pass(Socket from, Socket to, boolean answers) throws IOException {
        try (from; to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            byte[] some = new byte[1 << 14];
            for (int n = in.read(some); n > 0; n = in.read(some)) {
                if (!answers || !drops) {
                    out.write(some, 0, n);
                }
            }
        }
    }

    String address() {
        return "127.0.0.1:" + listens.getLocalPort();
    }

    void dropAnswers() {
        drops = true;
    }

    @Override
    public void close() throws IOException {
        listens.close();
    }
}
