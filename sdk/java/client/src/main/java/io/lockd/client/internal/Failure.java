package io.lockd.client.internal;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import io.lockd.v1.Deadlock;
import java.util.Map;

/**
 * Why something failed, without a stack: an exception is made of it where the program called. Several facts can be
 * true: the cause is another one.
 */
public final class Failure {
    private static final Metadata.Key<String> REASON =
        Metadata.Key.of("lockd-reason", Metadata.ASCII_STRING_MARSHALLER);

    final Fault fault;
    final String reason;
    final String text;
    final Failure cause;
    /** What the server told besides, for some reasons. */
    final Map<String, String> metadata;
    /** Further facts, of which each fault knows the type; or null. */
    final Object detail;

    private Failure(Fault fault, String reason, String text, Failure cause, Map<String, String> metadata,
        Object detail) {
        this.fault = fault;
        this.reason = reason;
        this.text = text;
        this.cause = cause;
        this.metadata = metadata;
        this.detail = detail;
    }

    /** The reason as the server told it, or one of ours; empty if there is none. */
    public String reason() {
        for (Failure f = this; f != null; f = f.cause) {
            if (!f.reason.isEmpty()) {
                return f.reason;
            }
        }
        return "";
    }

    public Map<String, String> metadata() {
        return metadata;
    }

    public Object detail() {
        return detail;
    }

    public static Failure of(Fault fault, String text) {
        return new Failure(fault, fault.reason(), text, null, Map.of(), null);
    }

    static Failure of(Fault fault, String text, Failure cause) {
        return new Failure(fault, fault.reason(), text, cause, Map.of(), null);
    }

    static Failure with(Fault fault, String text, Object detail) {
        return new Failure(fault, fault.reason(), text, null, Map.of(), detail);
    }

    /** A value that no server allows. */
    public static Failure invalid(String reason, String text) {
        return new Failure(Fault.of(reason, Status.Code.INVALID_ARGUMENT), reason, text, null, Map.of(), null);
    }

    /** What a stream told; null if it told none. */
    static Failure of(io.lockd.v1.Failure f) {
        if (f.getCode() == 0) {
            return null;
        }
        Status.Code code = Status.fromCodeValue(f.getCode()).getCode();
        Deadlock deadlock = f.hasDeadlock() ? f.getDeadlock() : null;
        return new Failure(Fault.of(f.getReason(), code), f.getReason(), f.getMessage(), null, f.getMetadataMap(),
            deadlock);
    }

    /** How a call or a stream ended. */
    public static Failure of(Status status, Metadata trailers) {
        if (status.isOk()) {
            return of(Fault.ENDED, "the server ended the session");
        }
        String reason = trailers == null ? null : trailers.get(REASON);
        reason = reason == null ? "" : reason;
        String text = status.getDescription() == null ? status.getCode().toString() : status.getDescription();
        for (Throwable t = status.getCause(); t != null; t = t.getCause()) {
            text += ": " + t.getMessage();
        }
        Map<String, String> metadata = reason.isEmpty() ? Map.of() : metadataOf(status, trailers);
        return new Failure(Fault.of(reason, status.getCode()), reason, text, null, metadata, null);
    }

    private static Map<String, String> metadataOf(Status status, Metadata trailers) {
        for (Any detail : StatusProto.fromStatusAndTrailers(status, trailers).getDetailsList()) {
            try {
                if (detail.is(ErrorInfo.class)) {
                    return detail.unpack(ErrorInfo.class).getMetadataMap();
                }
            } catch (InvalidProtocolBufferException e) {
                return Map.of(); // the reason says enough
            }
        }
        return Map.of();
    }

    /** The same, with what was attempted. */
    Failure in(String what) {
        return new Failure(fault, reason, what + ": " + text, cause, metadata, detail);
    }

    /** Whether it is one of some faults, or has one as a cause. */
    public boolean is(Fault... faults) {
        for (Failure f = this; f != null; f = f.cause) {
            for (Fault wanted : faults) {
                if (f.fault == wanted) {
                    return true;
                }
            }
        }
        return false;
    }

    /** Whether trying again soon is without hope. */
    boolean permanent() {
        return is(Fault.DENIED, Fault.FORBIDDEN, Fault.UNAUTHENTICATED, Fault.INVALID, Fault.UNSUPPORTED);
    }

    /** The same for a session that has been: a token or a certificate is often renewed a moment later. */
    boolean hopeless() {
        return permanent() && !is(Fault.UNAUTHENTICATED);
    }

    /** Whether nobody can go on with the session that was to be resumed. */
    boolean sessionGone() {
        return is(Fault.SESSION_EXPIRED, Fault.SUPERSEDED);
    }

    /** Makes sure that it is UNAVAILABLE, unless waiting will not help. */
    Failure unavailable() {
        return permanent() || is(Fault.UNAVAILABLE)
            ? this : of(Fault.UNAVAILABLE, "the lock service cannot be reached", this);
    }

    @Override
    public String toString() {
        String own = reason.isEmpty() ? text : text + " (" + reason + ")";
        return cause == null ? own : own + ": " + cause;
    }
}
