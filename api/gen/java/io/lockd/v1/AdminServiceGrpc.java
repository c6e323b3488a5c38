package io.lockd.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * AdminService is for operators. It is served on an address of its own, see admin_listen in docs/operations.md.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class AdminServiceGrpc {

  private AdminServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "lockd.v1.AdminService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.ForceReleaseRequest,
      io.lockd.v1.ForceReleaseResponse> getForceReleaseMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ForceRelease",
      requestType = io.lockd.v1.ForceReleaseRequest.class,
      responseType = io.lockd.v1.ForceReleaseResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.ForceReleaseRequest,
      io.lockd.v1.ForceReleaseResponse> getForceReleaseMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.ForceReleaseRequest, io.lockd.v1.ForceReleaseResponse> getForceReleaseMethod;
    if ((getForceReleaseMethod = AdminServiceGrpc.getForceReleaseMethod) == null) {
      synchronized (AdminServiceGrpc.class) {
        if ((getForceReleaseMethod = AdminServiceGrpc.getForceReleaseMethod) == null) {
          AdminServiceGrpc.getForceReleaseMethod = getForceReleaseMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.ForceReleaseRequest, io.lockd.v1.ForceReleaseResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ForceRelease"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ForceReleaseRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ForceReleaseResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminServiceMethodDescriptorSupplier("ForceRelease"))
              .build();
        }
      }
    }
    return getForceReleaseMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.RemoveLimitRequest,
      io.lockd.v1.RemoveLimitResponse> getRemoveLimitMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RemoveLimit",
      requestType = io.lockd.v1.RemoveLimitRequest.class,
      responseType = io.lockd.v1.RemoveLimitResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.RemoveLimitRequest,
      io.lockd.v1.RemoveLimitResponse> getRemoveLimitMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.RemoveLimitRequest, io.lockd.v1.RemoveLimitResponse> getRemoveLimitMethod;
    if ((getRemoveLimitMethod = AdminServiceGrpc.getRemoveLimitMethod) == null) {
      synchronized (AdminServiceGrpc.class) {
        if ((getRemoveLimitMethod = AdminServiceGrpc.getRemoveLimitMethod) == null) {
          AdminServiceGrpc.getRemoveLimitMethod = getRemoveLimitMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.RemoveLimitRequest, io.lockd.v1.RemoveLimitResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RemoveLimit"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.RemoveLimitRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.RemoveLimitResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminServiceMethodDescriptorSupplier("RemoveLimit"))
              .build();
        }
      }
    }
    return getRemoveLimitMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.AdoptLimitRequest,
      io.lockd.v1.AdoptLimitResponse> getAdoptLimitMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "AdoptLimit",
      requestType = io.lockd.v1.AdoptLimitRequest.class,
      responseType = io.lockd.v1.AdoptLimitResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.AdoptLimitRequest,
      io.lockd.v1.AdoptLimitResponse> getAdoptLimitMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.AdoptLimitRequest, io.lockd.v1.AdoptLimitResponse> getAdoptLimitMethod;
    if ((getAdoptLimitMethod = AdminServiceGrpc.getAdoptLimitMethod) == null) {
      synchronized (AdminServiceGrpc.class) {
        if ((getAdoptLimitMethod = AdminServiceGrpc.getAdoptLimitMethod) == null) {
          AdminServiceGrpc.getAdoptLimitMethod = getAdoptLimitMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.AdoptLimitRequest, io.lockd.v1.AdoptLimitResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "AdoptLimit"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.AdoptLimitRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.AdoptLimitResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminServiceMethodDescriptorSupplier("AdoptLimit"))
              .build();
        }
      }
    }
    return getAdoptLimitMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.DrainRequest,
      io.lockd.v1.DrainResponse> getDrainMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Drain",
      requestType = io.lockd.v1.DrainRequest.class,
      responseType = io.lockd.v1.DrainResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.DrainRequest,
      io.lockd.v1.DrainResponse> getDrainMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.DrainRequest, io.lockd.v1.DrainResponse> getDrainMethod;
    if ((getDrainMethod = AdminServiceGrpc.getDrainMethod) == null) {
      synchronized (AdminServiceGrpc.class) {
        if ((getDrainMethod = AdminServiceGrpc.getDrainMethod) == null) {
          AdminServiceGrpc.getDrainMethod = getDrainMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.DrainRequest, io.lockd.v1.DrainResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Drain"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.DrainRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.DrainResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminServiceMethodDescriptorSupplier("Drain"))
              .build();
        }
      }
    }
    return getDrainMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.UndrainRequest,
      io.lockd.v1.UndrainResponse> getUndrainMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Undrain",
      requestType = io.lockd.v1.UndrainRequest.class,
      responseType = io.lockd.v1.UndrainResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.UndrainRequest,
      io.lockd.v1.UndrainResponse> getUndrainMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.UndrainRequest, io.lockd.v1.UndrainResponse> getUndrainMethod;
    if ((getUndrainMethod = AdminServiceGrpc.getUndrainMethod) == null) {
      synchronized (AdminServiceGrpc.class) {
        if ((getUndrainMethod = AdminServiceGrpc.getUndrainMethod) == null) {
          AdminServiceGrpc.getUndrainMethod = getUndrainMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.UndrainRequest, io.lockd.v1.UndrainResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Undrain"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.UndrainRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.UndrainResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminServiceMethodDescriptorSupplier("Undrain"))
              .build();
        }
      }
    }
    return getUndrainMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.ExamineRequest,
      io.lockd.v1.ExamineResponse> getExamineMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Examine",
      requestType = io.lockd.v1.ExamineRequest.class,
      responseType = io.lockd.v1.ExamineResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.ExamineRequest,
      io.lockd.v1.ExamineResponse> getExamineMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.ExamineRequest, io.lockd.v1.ExamineResponse> getExamineMethod;
    if ((getExamineMethod = AdminServiceGrpc.getExamineMethod) == null) {
      synchronized (AdminServiceGrpc.class) {
        if ((getExamineMethod = AdminServiceGrpc.getExamineMethod) == null) {
          AdminServiceGrpc.getExamineMethod = getExamineMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.ExamineRequest, io.lockd.v1.ExamineResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Examine"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ExamineRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ExamineResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminServiceMethodDescriptorSupplier("Examine"))
              .build();
        }
      }
    }
    return getExamineMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static AdminServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AdminServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AdminServiceStub>() {
        @java.lang.Override
        public AdminServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AdminServiceStub(channel, callOptions);
        }
      };
    return AdminServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static AdminServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AdminServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AdminServiceBlockingStub>() {
        @java.lang.Override
        public AdminServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AdminServiceBlockingStub(channel, callOptions);
        }
      };
    return AdminServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static AdminServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AdminServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AdminServiceFutureStub>() {
        @java.lang.Override
        public AdminServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AdminServiceFutureStub(channel, callOptions);
        }
      };
    return AdminServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * AdminService is for operators. It is served on an address of its own, see admin_listen in docs/operations.md.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * ForceRelease frees a name whoever holds it. The holders are told Lost{FORCED}, by whom and why. READ frees only
     * readers, WRITE only a writer with its own reads; a semaphore gets all its permits back.
     * </pre>
     */
    default void forceRelease(io.lockd.v1.ForceReleaseRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ForceReleaseResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getForceReleaseMethod(), responseObserver);
    }

    /**
     * <pre>
     * RemoveLimit forgets the limit of a semaphore of which no permit is out, so that the name can be another kind of lock at
     * once. LOCK_BUSY while permits are out. By itself a limit that nobody uses goes after 10 minutes.
     * </pre>
     */
    default void removeLimit(io.lockd.v1.RemoveLimitRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.RemoveLimitResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRemoveLimitMethod(), responseObserver);
    }

    /**
     * <pre>
     * AdoptLimit has a number that Redisson set be a semaphore: nothing but the word of an operator tells it from a number
     * of another program. The number stays as it is. LOCK_CONFIG_MISMATCH if it is another one.
     * </pre>
     */
    default void adoptLimit(io.lockd.v1.AdoptLimitRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.AdoptLimitResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getAdoptLimitMethod(), responseObserver);
    }

    /**
     * <pre>
     * Drain asks all clients of this replica to move on, and refuses new ones.
     * </pre>
     */
    default void drain(io.lockd.v1.DrainRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.DrainResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDrainMethod(), responseObserver);
    }

    /**
     * <pre>
     * Undrain takes a Drain back: the replica accepts clients again. Those that were asked to move may still do so.
     * </pre>
     */
    default void undrain(io.lockd.v1.UndrainRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.UndrainResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getUndrainMethod(), responseObserver);
    }

    /**
     * <pre>
     * Examine has this replica and the servers where it keeps leases examined: whether they are what lockd needs. It
     * changes nothing, and answers within 15 seconds whatever the servers do.
     * </pre>
     */
    default void examine(io.lockd.v1.ExamineRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ExamineResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getExamineMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service AdminService.
   * <pre>
   * AdminService is for operators. It is served on an address of its own, see admin_listen in docs/operations.md.
   * </pre>
   */
  public static abstract class AdminServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return AdminServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service AdminService.
   * <pre>
   * AdminService is for operators. It is served on an address of its own, see admin_listen in docs/operations.md.
   * </pre>
   */
  public static final class AdminServiceStub
      extends io.grpc.stub.AbstractAsyncStub<AdminServiceStub> {
    private AdminServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AdminServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AdminServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * ForceRelease frees a name whoever holds it. The holders are told Lost{FORCED}, by whom and why. READ frees only
     * readers, WRITE only a writer with its own reads; a semaphore gets all its permits back.
     * </pre>
     */
    public void forceRelease(io.lockd.v1.ForceReleaseRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ForceReleaseResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getForceReleaseMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * RemoveLimit forgets the limit of a semaphore of which no permit is out, so that the name can be another kind of lock at
     * once. LOCK_BUSY while permits are out. By itself a limit that nobody uses goes after 10 minutes.
     * </pre>
     */
    public void removeLimit(io.lockd.v1.RemoveLimitRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.RemoveLimitResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRemoveLimitMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * AdoptLimit has a number that Redisson set be a semaphore: nothing but the word of an operator tells it from a number
     * of another program. The number stays as it is. LOCK_CONFIG_MISMATCH if it is another one.
     * </pre>
     */
    public void adoptLimit(io.lockd.v1.AdoptLimitRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.AdoptLimitResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getAdoptLimitMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Drain asks all clients of this replica to move on, and refuses new ones.
     * </pre>
     */
    public void drain(io.lockd.v1.DrainRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.DrainResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDrainMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Undrain takes a Drain back: the replica accepts clients again. Those that were asked to move may still do so.
     * </pre>
     */
    public void undrain(io.lockd.v1.UndrainRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.UndrainResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getUndrainMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Examine has this replica and the servers where it keeps leases examined: whether they are what lockd needs. It
     * changes nothing, and answers within 15 seconds whatever the servers do.
     * </pre>
     */
    public void examine(io.lockd.v1.ExamineRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ExamineResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getExamineMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service AdminService.
   * <pre>
   * AdminService is for operators. It is served on an address of its own, see admin_listen in docs/operations.md.
   * </pre>
   */
  public static final class AdminServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<AdminServiceBlockingStub> {
    private AdminServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AdminServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AdminServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * ForceRelease frees a name whoever holds it. The holders are told Lost{FORCED}, by whom and why. READ frees only
     * readers, WRITE only a writer with its own reads; a semaphore gets all its permits back.
     * </pre>
     */
    public io.lockd.v1.ForceReleaseResponse forceRelease(io.lockd.v1.ForceReleaseRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getForceReleaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RemoveLimit forgets the limit of a semaphore of which no permit is out, so that the name can be another kind of lock at
     * once. LOCK_BUSY while permits are out. By itself a limit that nobody uses goes after 10 minutes.
     * </pre>
     */
    public io.lockd.v1.RemoveLimitResponse removeLimit(io.lockd.v1.RemoveLimitRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRemoveLimitMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * AdoptLimit has a number that Redisson set be a semaphore: nothing but the word of an operator tells it from a number
     * of another program. The number stays as it is. LOCK_CONFIG_MISMATCH if it is another one.
     * </pre>
     */
    public io.lockd.v1.AdoptLimitResponse adoptLimit(io.lockd.v1.AdoptLimitRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getAdoptLimitMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Drain asks all clients of this replica to move on, and refuses new ones.
     * </pre>
     */
    public io.lockd.v1.DrainResponse drain(io.lockd.v1.DrainRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDrainMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Undrain takes a Drain back: the replica accepts clients again. Those that were asked to move may still do so.
     * </pre>
     */
    public io.lockd.v1.UndrainResponse undrain(io.lockd.v1.UndrainRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getUndrainMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Examine has this replica and the servers where it keeps leases examined: whether they are what lockd needs. It
     * changes nothing, and answers within 15 seconds whatever the servers do.
     * </pre>
     */
    public io.lockd.v1.ExamineResponse examine(io.lockd.v1.ExamineRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getExamineMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service AdminService.
   * <pre>
   * AdminService is for operators. It is served on an address of its own, see admin_listen in docs/operations.md.
   * </pre>
   */
  public static final class AdminServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<AdminServiceFutureStub> {
    private AdminServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AdminServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AdminServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * ForceRelease frees a name whoever holds it. The holders are told Lost{FORCED}, by whom and why. READ frees only
     * readers, WRITE only a writer with its own reads; a semaphore gets all its permits back.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.ForceReleaseResponse> forceRelease(
        io.lockd.v1.ForceReleaseRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getForceReleaseMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * RemoveLimit forgets the limit of a semaphore of which no permit is out, so that the name can be another kind of lock at
     * once. LOCK_BUSY while permits are out. By itself a limit that nobody uses goes after 10 minutes.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.RemoveLimitResponse> removeLimit(
        io.lockd.v1.RemoveLimitRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRemoveLimitMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * AdoptLimit has a number that Redisson set be a semaphore: nothing but the word of an operator tells it from a number
     * of another program. The number stays as it is. LOCK_CONFIG_MISMATCH if it is another one.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.AdoptLimitResponse> adoptLimit(
        io.lockd.v1.AdoptLimitRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getAdoptLimitMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Drain asks all clients of this replica to move on, and refuses new ones.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.DrainResponse> drain(
        io.lockd.v1.DrainRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDrainMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Undrain takes a Drain back: the replica accepts clients again. Those that were asked to move may still do so.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.UndrainResponse> undrain(
        io.lockd.v1.UndrainRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getUndrainMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Examine has this replica and the servers where it keeps leases examined: whether they are what lockd needs. It
     * changes nothing, and answers within 15 seconds whatever the servers do.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.ExamineResponse> examine(
        io.lockd.v1.ExamineRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getExamineMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_FORCE_RELEASE = 0;
  private static final int METHODID_REMOVE_LIMIT = 1;
  private static final int METHODID_ADOPT_LIMIT = 2;
  private static final int METHODID_DRAIN = 3;
  private static final int METHODID_UNDRAIN = 4;
  private static final int METHODID_EXAMINE = 5;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_FORCE_RELEASE:
          serviceImpl.forceRelease((io.lockd.v1.ForceReleaseRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.ForceReleaseResponse>) responseObserver);
          break;
        case METHODID_REMOVE_LIMIT:
          serviceImpl.removeLimit((io.lockd.v1.RemoveLimitRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.RemoveLimitResponse>) responseObserver);
          break;
        case METHODID_ADOPT_LIMIT:
          serviceImpl.adoptLimit((io.lockd.v1.AdoptLimitRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.AdoptLimitResponse>) responseObserver);
          break;
        case METHODID_DRAIN:
          serviceImpl.drain((io.lockd.v1.DrainRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.DrainResponse>) responseObserver);
          break;
        case METHODID_UNDRAIN:
          serviceImpl.undrain((io.lockd.v1.UndrainRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.UndrainResponse>) responseObserver);
          break;
        case METHODID_EXAMINE:
          serviceImpl.examine((io.lockd.v1.ExamineRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.ExamineResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getForceReleaseMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.ForceReleaseRequest,
              io.lockd.v1.ForceReleaseResponse>(
                service, METHODID_FORCE_RELEASE)))
        .addMethod(
          getRemoveLimitMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.RemoveLimitRequest,
              io.lockd.v1.RemoveLimitResponse>(
                service, METHODID_REMOVE_LIMIT)))
        .addMethod(
          getAdoptLimitMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.AdoptLimitRequest,
              io.lockd.v1.AdoptLimitResponse>(
                service, METHODID_ADOPT_LIMIT)))
        .addMethod(
          getDrainMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.DrainRequest,
              io.lockd.v1.DrainResponse>(
                service, METHODID_DRAIN)))
        .addMethod(
          getUndrainMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.UndrainRequest,
              io.lockd.v1.UndrainResponse>(
                service, METHODID_UNDRAIN)))
        .addMethod(
          getExamineMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.ExamineRequest,
              io.lockd.v1.ExamineResponse>(
                service, METHODID_EXAMINE)))
        .build();
  }

  private static abstract class AdminServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    AdminServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.lockd.v1.AdminServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("AdminService");
    }
  }

  private static final class AdminServiceFileDescriptorSupplier
      extends AdminServiceBaseDescriptorSupplier {
    AdminServiceFileDescriptorSupplier() {}
  }

  private static final class AdminServiceMethodDescriptorSupplier
      extends AdminServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    AdminServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (AdminServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new AdminServiceFileDescriptorSupplier())
              .addMethod(getForceReleaseMethod())
              .addMethod(getRemoveLimitMethod())
              .addMethod(getAdoptLimitMethod())
              .addMethod(getDrainMethod())
              .addMethod(getUndrainMethod())
              .addMethod(getExamineMethod())
              .build();
        }
      }
    }
    return result;
  }
}
