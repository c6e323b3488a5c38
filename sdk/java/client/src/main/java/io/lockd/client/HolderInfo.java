package io.lockd.client;

import io.lockd.client.internal.Settings;
import io.lockd.v1.NotGranted;
import io.lockd.v1.Queued;
import java.io.Serializable;
import java.time.Duration;

/**
 * Who is in the way of a request, for people. What the replica that answers does not know is empty.
 *
 * @param name the lock; of several the one in the way
 * @param heldBy begins with {@code <session>:<holder>}, or is the id that another Redis client uses
 * @param client how the client that holds it names itself
 * @param annotation the annotation of that hold, its first 256 bytes
 * @param peer the network address that the client came from
 * @param heldFor for how long it has held it; zero if that is not known
 */
public record HolderInfo(String name, String heldBy, String client, String annotation, String peer,
    Duration heldFor) implements Serializable {
    static HolderInfo of(NotGranted n) {
        return new HolderInfo(n.getName(), n.getHeldBy(), n.getClient(), n.getAnnotation(), n.getPeer(),
            Settings.duration(n.getHeldFor()));
    }

    static HolderInfo of(Queued q) {
        return new HolderInfo(q.getName(), q.getHeldBy(), q.getClient(), q.getAnnotation(), q.getPeer(),
            Settings.duration(q.getHeldFor()));
    }

    /** As a person would say it, such as {@code billing (nightly) from 10.0.0.7:40312 for 12 s}; empty if unknown. */
    public String who() {
        String who = shown(client.isEmpty() ? heldBy : client);
        if (who.isEmpty()) {
            return "";
        }
        return who + (annotation.isEmpty() ? "" : " (" + shown(annotation) + ")")
            + (peer.isEmpty() ? "" : " from " + shown(peer))
            + (heldFor.isZero() ? "" : " for " + (heldFor.getSeconds() > 0 ? heldFor.getSeconds() + " s"
                : heldFor.toMillis() + " ms"));
    }

    /** A text of another client as people may see it: without what is not to be printed. */
    private static String shown(String text) {
        StringBuilder s = new StringBuilder();
        text.codePoints().forEach(c -> {
            if (printable(c)) {
                s.appendCodePoint(c);
            } else {
                s.append(String.format("\\u{%x}", c));
            }
        });
        return s.toString();
    }

    private static boolean printable(int c) {
        switch (Character.getType(c)) {
            case Character.CONTROL:
            case Character.FORMAT:
            case Character.LINE_SEPARATOR:
            case Character.PARAGRAPH_SEPARATOR:
            case Character.SURROGATE:
            case Character.PRIVATE_USE:
            case Character.UNASSIGNED:
                return false;
            default:
                return true;
        }
    }
}
