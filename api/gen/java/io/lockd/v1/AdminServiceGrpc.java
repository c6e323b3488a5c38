package io.lockd.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * AdminService is for operators. Its lists are of the replica that answers.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class AdminServiceGrpc {

  private AdminServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "lockd.v1.AdminService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.ListSessionsRequest,
      io.lockd.v1.ListSessionsResponse> getListSessionsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListSessions",
      requestType = io.lockd.v1.ListSessionsRequest.class,
      responseType = io.lockd.v1.ListSessionsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.ListSessionsRequest,
      io.lockd.v1.ListSessionsResponse> getListSessionsMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.ListSessionsRequest, io.lockd.v1.ListSessionsResponse> getListSessionsMethod;
    if ((getListSessionsMethod = AdminServiceGrpc.getListSessionsMethod) == null) {
      synchronized (AdminServiceGrpc.class) {
        if ((getListSessionsMethod = AdminServiceGrpc.getListSessionsMethod) == null) {
          AdminServiceGrpc.getListSessionsMethod = getListSessionsMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.ListSessionsRequest, io.lockd.v1.ListSessionsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListSessions"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListSessionsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListSessionsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminServiceMethodDescriptorSupplier("ListSessions"))
              .build();
        }
      }
    }
    return getListSessionsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.ListLocksRequest,
      io.lockd.v1.ListLocksResponse> getListLocksMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListLocks",
      requestType = io.lockd.v1.ListLocksRequest.class,
      responseType = io.lockd.v1.ListLocksResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.ListLocksRequest,
      io.lockd.v1.ListLocksResponse> getListLocksMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.ListLocksRequest, io.lockd.v1.ListLocksResponse> getListLocksMethod;
    if ((getListLocksMethod = AdminServiceGrpc.getListLocksMethod) == null) {
      synchronized (AdminServiceGrpc.class) {
        if ((getListLocksMethod = AdminServiceGrpc.getListLocksMethod) == null) {
          AdminServiceGrpc.getListLocksMethod = getListLocksMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.ListLocksRequest, io.lockd.v1.ListLocksResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListLocks"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListLocksRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListLocksResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminServiceMethodDescriptorSupplier("ListLocks"))
              .build();
        }
      }
    }
    return getListLocksMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.ListWaitersRequest,
      io.lockd.v1.ListWaitersResponse> getListWaitersMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListWaiters",
      requestType = io.lockd.v1.ListWaitersRequest.class,
      responseType = io.lockd.v1.ListWaitersResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.ListWaitersRequest,
      io.lockd.v1.ListWaitersResponse> getListWaitersMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.ListWaitersRequest, io.lockd.v1.ListWaitersResponse> getListWaitersMethod;
    if ((getListWaitersMethod = AdminServiceGrpc.getListWaitersMethod) == null) {
      synchronized (AdminServiceGrpc.class) {
        if ((getListWaitersMethod = AdminServiceGrpc.getListWaitersMethod) == null) {
          AdminServiceGrpc.getListWaitersMethod = getListWaitersMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.ListWaitersRequest, io.lockd.v1.ListWaitersResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListWaiters"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListWaitersRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListWaitersResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminServiceMethodDescriptorSupplier("ListWaiters"))
              .build();
        }
      }
    }
    return getListWaitersMethod;
  }

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
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static AdminServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AdminServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AdminServiceBlockingV2Stub>() {
        @java.lang.Override
        public AdminServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AdminServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return AdminServiceBlockingV2Stub.newStub(factory, channel);
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
   * AdminService is for operators. Its lists are of the replica that answers.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * ListSessions lists the open sessions.
     * </pre>
     */
    default void listSessions(io.lockd.v1.ListSessionsRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListSessionsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListSessionsMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListLocks lists the leases that sessions of this replica hold.
     * </pre>
     */
    default void listLocks(io.lockd.v1.ListLocksRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListLocksResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListLocksMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListWaiters lists the requests that wait for a name, in their order: for a fair lock all there are anywhere, for
     * others those of this replica.
     * </pre>
     */
    default void listWaiters(io.lockd.v1.ListWaitersRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListWaitersResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListWaitersMethod(), responseObserver);
    }

    /**
     * <pre>
     * ForceRelease frees a name whoever holds it. The holders are told Lost{FORCED}. READ frees only readers, WRITE
     * only a writer with its own reads; a semaphore gets all its permits back.
     * </pre>
     */
    default void forceRelease(io.lockd.v1.ForceReleaseRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ForceReleaseResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getForceReleaseMethod(), responseObserver);
    }

    /**
     * <pre>
     * Drain asks all clients of this replica to move on.
     * </pre>
     */
    default void drain(io.lockd.v1.DrainRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.DrainResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDrainMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service AdminService.
   * <pre>
   * AdminService is for operators. Its lists are of the replica that answers.
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
   * AdminService is for operators. Its lists are of the replica that answers.
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
     * ListSessions lists the open sessions.
     * </pre>
     */
    public void listSessions(io.lockd.v1.ListSessionsRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListSessionsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListSessionsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListLocks lists the leases that sessions of this replica hold.
     * </pre>
     */
    public void listLocks(io.lockd.v1.ListLocksRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListLocksResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListLocksMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListWaiters lists the requests that wait for a name, in their order: for a fair lock all there are anywhere, for
     * others those of this replica.
     * </pre>
     */
    public void listWaiters(io.lockd.v1.ListWaitersRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListWaitersResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListWaitersMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ForceRelease frees a name whoever holds it. The holders are told Lost{FORCED}. READ frees only readers, WRITE
     * only a writer with its own reads; a semaphore gets all its permits back.
     * </pre>
     */
    public void forceRelease(io.lockd.v1.ForceReleaseRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ForceReleaseResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getForceReleaseMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Drain asks all clients of this replica to move on.
     * </pre>
     */
    public void drain(io.lockd.v1.DrainRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.DrainResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDrainMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service AdminService.
   * <pre>
   * AdminService is for operators. Its lists are of the replica that answers.
   * </pre>
   */
  public static final class AdminServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<AdminServiceBlockingV2Stub> {
    private AdminServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AdminServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AdminServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * ListSessions lists the open sessions.
     * </pre>
     */
    public io.lockd.v1.ListSessionsResponse listSessions(io.lockd.v1.ListSessionsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListSessionsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListLocks lists the leases that sessions of this replica hold.
     * </pre>
     */
    public io.lockd.v1.ListLocksResponse listLocks(io.lockd.v1.ListLocksRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListLocksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListWaiters lists the requests that wait for a name, in their order: for a fair lock all there are anywhere, for
     * others those of this replica.
     * </pre>
     */
    public io.lockd.v1.ListWaitersResponse listWaiters(io.lockd.v1.ListWaitersRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListWaitersMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ForceRelease frees a name whoever holds it. The holders are told Lost{FORCED}. READ frees only readers, WRITE
     * only a writer with its own reads; a semaphore gets all its permits back.
     * </pre>
     */
    public io.lockd.v1.ForceReleaseResponse forceRelease(io.lockd.v1.ForceReleaseRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getForceReleaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Drain asks all clients of this replica to move on.
     * </pre>
     */
    public io.lockd.v1.DrainResponse drain(io.lockd.v1.DrainRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDrainMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service AdminService.
   * <pre>
   * AdminService is for operators. Its lists are of the replica that answers.
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
     * ListSessions lists the open sessions.
     * </pre>
     */
    public io.lockd.v1.ListSessionsResponse listSessions(io.lockd.v1.ListSessionsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListSessionsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListLocks lists the leases that sessions of this replica hold.
     * </pre>
     */
    public io.lockd.v1.ListLocksResponse listLocks(io.lockd.v1.ListLocksRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListLocksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListWaiters lists the requests that wait for a name, in their order: for a fair lock all there are anywhere, for
     * others those of this replica.
     * </pre>
     */
    public io.lockd.v1.ListWaitersResponse listWaiters(io.lockd.v1.ListWaitersRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListWaitersMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ForceRelease frees a name whoever holds it. The holders are told Lost{FORCED}. READ frees only readers, WRITE
     * only a writer with its own reads; a semaphore gets all its permits back.
     * </pre>
     */
    public io.lockd.v1.ForceReleaseResponse forceRelease(io.lockd.v1.ForceReleaseRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getForceReleaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Drain asks all clients of this replica to move on.
     * </pre>
     */
    public io.lockd.v1.DrainResponse drain(io.lockd.v1.DrainRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDrainMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service AdminService.
   * <pre>
   * AdminService is for operators. Its lists are of the replica that answers.
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
     * ListSessions lists the open sessions.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.ListSessionsResponse> listSessions(
        io.lockd.v1.ListSessionsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListSessionsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListLocks lists the leases that sessions of this replica hold.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.ListLocksResponse> listLocks(
        io.lockd.v1.ListLocksRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListLocksMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListWaiters lists the requests that wait for a name, in their order: for a fair lock all there are anywhere, for
     * others those of this replica.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.ListWaitersResponse> listWaiters(
        io.lockd.v1.ListWaitersRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListWaitersMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ForceRelease frees a name whoever holds it. The holders are told Lost{FORCED}. READ frees only readers, WRITE
     * only a writer with its own reads; a semaphore gets all its permits back.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.ForceReleaseResponse> forceRelease(
        io.lockd.v1.ForceReleaseRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getForceReleaseMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Drain asks all clients of this replica to move on.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.DrainResponse> drain(
        io.lockd.v1.DrainRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDrainMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_LIST_SESSIONS = 0;
  private static final int METHODID_LIST_LOCKS = 1;
  private static final int METHODID_LIST_WAITERS = 2;
  private static final int METHODID_FORCE_RELEASE = 3;
  private static final int METHODID_DRAIN = 4;

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
        case METHODID_LIST_SESSIONS:
          serviceImpl.listSessions((io.lockd.v1.ListSessionsRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.ListSessionsResponse>) responseObserver);
          break;
        case METHODID_LIST_LOCKS:
          serviceImpl.listLocks((io.lockd.v1.ListLocksRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.ListLocksResponse>) responseObserver);
          break;
        case METHODID_LIST_WAITERS:
          serviceImpl.listWaiters((io.lockd.v1.ListWaitersRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.ListWaitersResponse>) responseObserver);
          break;
        case METHODID_FORCE_RELEASE:
          serviceImpl.forceRelease((io.lockd.v1.ForceReleaseRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.ForceReleaseResponse>) responseObserver);
          break;
        case METHODID_DRAIN:
          serviceImpl.drain((io.lockd.v1.DrainRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.DrainResponse>) responseObserver);
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
          getListSessionsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.ListSessionsRequest,
              io.lockd.v1.ListSessionsResponse>(
                service, METHODID_LIST_SESSIONS)))
        .addMethod(
          getListLocksMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.ListLocksRequest,
              io.lockd.v1.ListLocksResponse>(
                service, METHODID_LIST_LOCKS)))
        .addMethod(
          getListWaitersMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.ListWaitersRequest,
              io.lockd.v1.ListWaitersResponse>(
                service, METHODID_LIST_WAITERS)))
        .addMethod(
          getForceReleaseMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.ForceReleaseRequest,
              io.lockd.v1.ForceReleaseResponse>(
                service, METHODID_FORCE_RELEASE)))
        .addMethod(
          getDrainMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.DrainRequest,
              io.lockd.v1.DrainResponse>(
                service, METHODID_DRAIN)))
        .build();
  }

  private static abstract class AdminServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    AdminServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.lockd.v1.AdminServiceOuterClass.getDescriptor();
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
              .addMethod(getListSessionsMethod())
              .addMethod(getListLocksMethod())
              .addMethod(getListWaitersMethod())
              .addMethod(getForceReleaseMethod())
              .addMethod(getDrainMethod())
              .build();
        }
      }
    }
    return result;
  }
}
