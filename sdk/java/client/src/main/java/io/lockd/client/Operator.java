package io.lockd.client;

import io.grpc.StatusRuntimeException;
import io.lockd.client.internal.Engine;
import io.lockd.client.internal.Failure;
import io.lockd.v1.AdminServiceGrpc;
import io.lockd.v1.ForceReleaseRequest;
import io.lockd.v1.LockKind;
import java.util.concurrent.TimeUnit;

/** What needs the address for operators. */
final class Operator {
    private final Engine engine;

    Operator(Engine engine) {
        this.engine = engine;
    }

    boolean forceRelease(String name, io.lockd.client.LockKind kind, String why) {
        String address = engine.channels().admin();
        if (address == null) {
            throw new IllegalStateException(
                "to unlock by force is for operators: give the client their address with adminAddress(\"HOST:PORT\")");
        }
        ForceReleaseRequest request = ForceReleaseRequest.newBuilder().setName(name)
            .setKind(LockKind.forNumber(kind.ordinal() + 1)).setWhy(why).setBy(System.getProperty("user.name", ""))
            .build();
        try {
            return AdminServiceGrpc.newBlockingStub(engine.channels().unary(address))
                .withCallCredentials(engine.channels().options().getCredentials())
                .withDeadlineAfter(engine.answerNanos(), TimeUnit.NANOSECONDS).forceRelease(request).getReleased();
        } catch (StatusRuntimeException e) {
            throw Errors.of("force unlock \"" + name + '"', Failure.of(e.getStatus(), e.getTrailers()));
        }
    }
}
