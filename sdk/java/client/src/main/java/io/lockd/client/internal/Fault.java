package io.lockd.client.internal;

import io.grpc.Status;
import java.util.Arrays;

/** What can go wrong. The reasons of the server are turned into these, see docs/errors.md. */
public enum Fault {
    OUTCOME_UNKNOWN("OUTCOME_UNKNOWN"),
    LOST("LOCK_LOST"),
    UNAVAILABLE("UNAVAILABLE", "BACKEND_UNAVAILABLE", "NO_QUORUM", "KEYS_UNAVAILABLE"),
    HELD("LOCK_BUSY"),
    DEADLOCK("DEADLOCK"),
    TIMED_OUT("WAIT_TIMEOUT"),
    CANCELLED("WAIT_CANCELLED"),
    NOT_HELD("LOCK_NOT_HELD"),
    STALE("FENCE_STALE"),
    AUTO_LEASE("LEASE_IS_AUTO"),
    CONFIG_MISMATCH("LOCK_CONFIG_MISMATCH"),
    UPGRADE("LOCK_UPGRADE"),
    STORE_FULL("STORE_FULL"),
    DRAINING("DRAINING"),
    SESSION_EXPIRED("SESSION_EXPIRED"),
    SUPERSEDED("SUPERSEDED"),
    SILENT("SESSION_SILENT"),
    BACKLOG("STREAM_BACKLOG"),
    UNSUPPORTED("UNIMPLEMENTED", "KIND_UNSUPPORTED"),
    // Reasons that a client that keeps to the protocol is never told come before what begins alike.
    PROTOCOL("PROTOCOL", "REQUEST_NOT_WAITING", "REQUEST_ID_REPEATED", "SESSION_NOT_OPEN", "SESSION_ALREADY_OPEN",
        "FRAME_TOO_LARGE"),
    INVALID("INVALID*", "ALREADY_HELD", "NAME_RESERVED"),
    QUOTA("QUOTA*"),
    FORBIDDEN("FORBIDDEN"),
    UNAUTHENTICATED("UNAUTHENTICATED", "NO_CREDENTIALS", "TOKEN_INVALID", "TOKEN_EXPIRED", "CERTIFICATE_EXPIRED",
        "CLIENT_UNKNOWN", "IDENTITY_WITHDRAWN"),
    DENIED("PERMISSION_DENIED", "ADMIN_ONLY"),
    CLOSED("CLIENT_CLOSED"),
    /** None that is known. */
    OTHER(""),

    // The rest is between parts of the engine.

    /** The session could not answer before it ended. */
    SESSION_OVER(""),
    /** The answer was late. */
    NO_ANSWER(""),
    /** The stream ended before the answer came, and to ask again could undo what others did since. */
    BROKEN(""),
    /** The server ended the stream without an error. */
    ENDED(""),
    /** The session goes on in another stream. */
    LEFT("");

    private final String[] reasons;

    Fault(String... reasons) {
        this.reasons = reasons;
    }

    /** The reason that stands for it, empty if there is none. */
    String reason() {
        return reasons[0].replace("*", "");
    }

    private boolean means(String reason) {
        return Arrays.stream(reasons)
            .anyMatch(r -> r.endsWith("*") ? reason.startsWith(r.substring(0, r.length() - 1)) : r.equals(reason));
    }

    /** What a reason of the server stands for, or else a code of gRPC. */
    static Fault of(String reason, Status.Code code) {
        if (!reason.isEmpty()) {
            for (Fault f : values()) {
                if (f.means(reason)) {
                    return f;
                }
            }
        }
        switch (code) {
            case UNAVAILABLE:
            case DEADLINE_EXCEEDED:
                return UNAVAILABLE;
            case UNIMPLEMENTED:
                return UNSUPPORTED;
            case INVALID_ARGUMENT:
                return INVALID;
            case RESOURCE_EXHAUSTED:
                return QUOTA;
            case PERMISSION_DENIED:
                return DENIED;
            case UNAUTHENTICATED:
                return UNAUTHENTICATED;
            default:
                return OTHER;
        }
    }
}
