/**
 * The Java SDK of lockd, the lock broker. A {@link io.lockd.client.LockdClient} keeps one session with a server, which
 * all its locks share; make one for a process.
 *
 * <pre>{@code
 * try (LockdClient client = LockdClient.connect("127.0.0.1:7420");
 *      Held held = client.lock("orders/42").waitUpTo(Duration.ofSeconds(5)).acquire()) {
 *     held.onLost(lost -> stop());
 *     write(held.fence());
 * }
 * }</pre>
 *
 * <h2>What it promises</h2>
 * A {@link io.lockd.client.Held} knows by itself until when it is surely held, also when it is cut off from the server:
 * from that moment on {@code check}, {@code isHeld} and {@code onLost} say that it is lost. The time counts on
 * {@link java.lang.System#nanoTime}, from when a message was sent and not from when its answer came: a slow network
 * shortens it, and never stretches it. Each question reads the clock, so that a process that was stopped is told of the
 * loss by its first question. A lock that was lost stays lost.
 * <p>
 * A call that throws, and an {@code acquireAsync} that is cancelled, leaves nothing behind that outlives a lease: the
 * request is taken back, and a grant of that moment is released.
 *
 * <h2>What it does not promise</h2>
 * A program can be stopped between asking and acting, and act late. Only a resource that is given the fence, and
 * refuses smaller ones than it has seen, is safe from that.
 *
 * <h2>When the connection breaks</h2>
 * The client goes on with its session in another stream, at another address if it knows one. Locks stay held, with
 * their fences, if that succeeds before their deadlines. Requests that wait are made again, and keep their bounds.
 *
 * <h2>Threads</h2>
 * A handle belongs to no thread: any may use it. A client has one thread for the network and the clock, and one that
 * calls functions of the program; both are daemons and end with {@code close}. Waiting does not pin virtual threads.
 */
package io.lockd.client;
