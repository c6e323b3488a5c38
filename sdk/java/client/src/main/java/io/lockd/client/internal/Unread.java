package io.lockd.client.internal;

import java.util.concurrent.ArrayBlockingQueue;
import java.util.function.Consumer;

/**
 * What a function is to be told, in order, by the thread for that. Of what it does not take in time the oldest is passed
 * over: a server may tell much, and nothing is kept without a bound. put is called by one thread.
 */
final class Unread<T> {
    private static final int MOST = 64;

    private final Callbacks callbacks;
    private final Callbacks.Line line = new Callbacks.Line();
    private final Consumer<T> told;
    private final ArrayBlockingQueue<T> news = new ArrayBlockingQueue<>(MOST);

    Unread(Callbacks callbacks, Consumer<T> told) {
        this.callbacks = callbacks;
        this.told = told;
    }

    void put(T one) {
        if (news.offer(one)) {
            callbacks.execute(line, this::tell);
            return;
        }
        news.poll();
        news.add(one); // there is room: nobody else adds
    }

    private void tell() {
        T one = news.poll();
        if (one != null) { // else it was passed over
            told.accept(one);
        }
    }
}
