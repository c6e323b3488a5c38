package io.lockd.client.internal;

import io.grpc.Attributes;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientStreamTracer;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;

/** Notes whether a call was given to a connection. One that was not surely did nothing. */
public final class Sent extends ClientStreamTracer.Factory implements ClientInterceptor {
    private volatile boolean sent;

    /** Whether the server may have it. */
    public boolean was() {
        return sent;
    }

    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
        return next.newCall(method, options.withStreamTracerFactory(this));
    }

    @Override
    public ClientStreamTracer newClientStreamTracer(ClientStreamTracer.StreamInfo info, Metadata headers) {
        return new ClientStreamTracer() {
            @Override
            public void streamCreated(Attributes connection, Metadata sentHeaders) {
                sent = true;
            }
        };
    }
}
