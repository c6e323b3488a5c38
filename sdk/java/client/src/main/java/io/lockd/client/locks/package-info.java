/** Locks that belong to threads: those of java.util.concurrent.locks, with the verbs of Redisson. */
package io.lockd.client.locks;
