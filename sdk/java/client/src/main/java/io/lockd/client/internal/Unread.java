package io.lockd.client.internal;

import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/**
 * What a function is to be told, in order, by an executor. Of what it does not take in time the oldest is passed over:
 * a server may tell much, and nothing is kept without a bound. put is called by one thread.
 */
final class Unread<T> {
    private static final int MOST = 64;

    private final Executor executor;
    private final Consumer<T> told;
    private final ArrayBlockingQueue<T> news = new ArrayBlockingQueue<>(MOST);

    Unread(Executor executor, Consumer<T> told) {
        this.executor = executor;
        this.told = told;
    }

    void put(T one) {
        if (news.offer(one)) {
            executor.execute(this::tell);
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
