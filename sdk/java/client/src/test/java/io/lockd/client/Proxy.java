package io.lockd.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A way to a server that can be cut: then nothing passes any more, or no answers, and nobody is told. */
final class Proxy implements AutoCloseable {
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
    private final int port;
    private volatile boolean cut;
    /** Connections with a number below it lose answers. */
    private volatile int losesBelow;
    private volatile int made;
    private volatile Duration far = Duration.ZERO;
    private volatile boolean kept;

    Proxy(String target) throws IOException {
        port = Integer.parseInt(target.substring(target.lastIndexOf(':') + 1));
        run(this::accept);
    }

    private static void run(Runnable task) {
        Thread t = new Thread(task, "proxy");
        t.setDaemon(true);
        t.start();
    }

    String address() {
        return "127.0.0.1:" + listener.getLocalPort();
    }

    /** Has nothing pass any more, or all again. */
    void cut(boolean on) {
        cut = on;
    }

    /** Has all that passes take so long, each way. */
    void far(Duration way) {
        far = way;
    }

    /** Has answers be lost from now on. */
    void loseAnswers() {
        losesBelow = Integer.MAX_VALUE;
    }

    /** Ends all connections. Everything passes those that are made from now on. */
    void breakAll() throws IOException {
        losesBelow = made;
        for (Socket s : sockets) {
            s.close();
        }
    }

    /** Whether something came that did not pass. */
    boolean kept() {
        return kept;
    }

    private void accept() {
        try {
            for (;;) {
                Socket client = listener.accept();
                Socket server = new Socket(InetAddress.getLoopbackAddress(), port);
                sockets.add(client);
                sockets.add(server);
                int number = made;
                made = number + 1;
                run(() -> copy(client, server, Integer.MAX_VALUE));
                run(() -> copy(server, client, number));
            }
        } catch (IOException e) {
            // closed
        }
    }

    /** number is that of a connection whose answers these are. */
    private void copy(Socket from, Socket to, int number) {
        byte[] buffer = new byte[1 << 16];
        try (InputStream in = from.getInputStream(); OutputStream out = to.getOutputStream()) {
            for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
                for (; cut; Thread.sleep(1)) {
                    kept = true;
                }
                Thread.sleep(far.toMillis());
                if (number >= losesBelow || number == Integer.MAX_VALUE) {
                    out.write(buffer, 0, n);
                }
            }
        } catch (IOException | InterruptedException e) {
            // it ends
        } finally {
            sockets.remove(from);
        }
    }

    /** How many ways through it are open. */
    int connections() {
        return (sockets.size() + 1) / 2;
    }

    @Override
    public void close() throws IOException {
        listener.close();
        for (Socket s : sockets) {
            s.close();
        }
    }
}
