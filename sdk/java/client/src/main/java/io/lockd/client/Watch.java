package io.lockd.client;

/** A name that is watched, until it is closed, or the client is. Closing it twice is fine. */
public interface Watch extends AutoCloseable {
    @Override
    void close();
}
