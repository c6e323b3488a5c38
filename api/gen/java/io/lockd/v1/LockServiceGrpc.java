package io.lockd.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * LockService is for callers that cannot keep a stream: shells, cron jobs, functions. Its leases are fixed: they
 * are never renewed and end by themselves. Each belongs to a lease id that only its caller knows.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class LockServiceGrpc {

  private LockServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "lockd.v1.LockService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.AcquireRequest,
      io.lockd.v1.AcquireResponse> getAcquireMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Acquire",
      requestType = io.lockd.v1.AcquireRequest.class,
      responseType = io.lockd.v1.AcquireResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.AcquireRequest,
      io.lockd.v1.AcquireResponse> getAcquireMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.AcquireRequest, io.lockd.v1.AcquireResponse> getAcquireMethod;
    if ((getAcquireMethod = LockServiceGrpc.getAcquireMethod) == null) {
      synchronized (LockServiceGrpc.class) {
        if ((getAcquireMethod = LockServiceGrpc.getAcquireMethod) == null) {
          LockServiceGrpc.getAcquireMethod = getAcquireMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.AcquireRequest, io.lockd.v1.AcquireResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Acquire"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.AcquireRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.AcquireResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LockServiceMethodDescriptorSupplier("Acquire"))
              .build();
        }
      }
    }
    return getAcquireMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.ExtendRequest,
      io.lockd.v1.ExtendResponse> getExtendMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Extend",
      requestType = io.lockd.v1.ExtendRequest.class,
      responseType = io.lockd.v1.ExtendResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.ExtendRequest,
      io.lockd.v1.ExtendResponse> getExtendMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.ExtendRequest, io.lockd.v1.ExtendResponse> getExtendMethod;
    if ((getExtendMethod = LockServiceGrpc.getExtendMethod) == null) {
      synchronized (LockServiceGrpc.class) {
        if ((getExtendMethod = LockServiceGrpc.getExtendMethod) == null) {
          LockServiceGrpc.getExtendMethod = getExtendMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.ExtendRequest, io.lockd.v1.ExtendResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Extend"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ExtendRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ExtendResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LockServiceMethodDescriptorSupplier("Extend"))
              .build();
        }
      }
    }
    return getExtendMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.ReleaseRequest,
      io.lockd.v1.ReleaseResponse> getReleaseMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Release",
      requestType = io.lockd.v1.ReleaseRequest.class,
      responseType = io.lockd.v1.ReleaseResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.ReleaseRequest,
      io.lockd.v1.ReleaseResponse> getReleaseMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.ReleaseRequest, io.lockd.v1.ReleaseResponse> getReleaseMethod;
    if ((getReleaseMethod = LockServiceGrpc.getReleaseMethod) == null) {
      synchronized (LockServiceGrpc.class) {
        if ((getReleaseMethod = LockServiceGrpc.getReleaseMethod) == null) {
          LockServiceGrpc.getReleaseMethod = getReleaseMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.ReleaseRequest, io.lockd.v1.ReleaseResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Release"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ReleaseRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ReleaseResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LockServiceMethodDescriptorSupplier("Release"))
              .build();
        }
      }
    }
    return getReleaseMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.GetRequest,
      io.lockd.v1.GetResponse> getGetMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Get",
      requestType = io.lockd.v1.GetRequest.class,
      responseType = io.lockd.v1.GetResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.GetRequest,
      io.lockd.v1.GetResponse> getGetMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.GetRequest, io.lockd.v1.GetResponse> getGetMethod;
    if ((getGetMethod = LockServiceGrpc.getGetMethod) == null) {
      synchronized (LockServiceGrpc.class) {
        if ((getGetMethod = LockServiceGrpc.getGetMethod) == null) {
          LockServiceGrpc.getGetMethod = getGetMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.GetRequest, io.lockd.v1.GetResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Get"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.GetRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.GetResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LockServiceMethodDescriptorSupplier("Get"))
              .build();
        }
      }
    }
    return getGetMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.ListRequest,
      io.lockd.v1.ListResponse> getListMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "List",
      requestType = io.lockd.v1.ListRequest.class,
      responseType = io.lockd.v1.ListResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.ListRequest,
      io.lockd.v1.ListResponse> getListMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.ListRequest, io.lockd.v1.ListResponse> getListMethod;
    if ((getListMethod = LockServiceGrpc.getListMethod) == null) {
      synchronized (LockServiceGrpc.class) {
        if ((getListMethod = LockServiceGrpc.getListMethod) == null) {
          LockServiceGrpc.getListMethod = getListMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.ListRequest, io.lockd.v1.ListResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "List"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LockServiceMethodDescriptorSupplier("List"))
              .build();
        }
      }
    }
    return getListMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.SetLimitRequest,
      io.lockd.v1.SetLimitResponse> getSetLimitMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SetLimit",
      requestType = io.lockd.v1.SetLimitRequest.class,
      responseType = io.lockd.v1.SetLimitResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.SetLimitRequest,
      io.lockd.v1.SetLimitResponse> getSetLimitMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.SetLimitRequest, io.lockd.v1.SetLimitResponse> getSetLimitMethod;
    if ((getSetLimitMethod = LockServiceGrpc.getSetLimitMethod) == null) {
      synchronized (LockServiceGrpc.class) {
        if ((getSetLimitMethod = LockServiceGrpc.getSetLimitMethod) == null) {
          LockServiceGrpc.getSetLimitMethod = getSetLimitMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.SetLimitRequest, io.lockd.v1.SetLimitResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SetLimit"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.SetLimitRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.SetLimitResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LockServiceMethodDescriptorSupplier("SetLimit"))
              .build();
        }
      }
    }
    return getSetLimitMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static LockServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LockServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LockServiceStub>() {
        @java.lang.Override
        public LockServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LockServiceStub(channel, callOptions);
        }
      };
    return LockServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static LockServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LockServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LockServiceBlockingStub>() {
        @java.lang.Override
        public LockServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LockServiceBlockingStub(channel, callOptions);
        }
      };
    return LockServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static LockServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LockServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LockServiceFutureStub>() {
        @java.lang.Override
        public LockServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LockServiceFutureStub(channel, callOptions);
        }
      };
    return LockServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * LockService is for callers that cannot keep a stream: shells, cron jobs, functions. Its leases are fixed: they
   * are never renewed and end by themselves. Each belongs to a lease id that only its caller knows.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Acquire takes a lock for a fixed time.
     * </pre>
     */
    default void acquire(io.lockd.v1.AcquireRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.AcquireResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getAcquireMethod(), responseObserver);
    }

    /**
     * <pre>
     * Extend sets how long a lease lasts from now.
     * </pre>
     */
    default void extend(io.lockd.v1.ExtendRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ExtendResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getExtendMethod(), responseObserver);
    }

    /**
     * <pre>
     * Release gives a lease back.
     * </pre>
     */
    default void release(io.lockd.v1.ReleaseRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ReleaseResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReleaseMethod(), responseObserver);
    }

    /**
     * <pre>
     * Get tells what is known of a name.
     * </pre>
     */
    default void get(io.lockd.v1.GetRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.GetResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetMethod(), responseObserver);
    }

    /**
     * <pre>
     * List lists the names that are held, from the store, in no order.
     * </pre>
     */
    default void list(io.lockd.v1.ListRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListMethod(), responseObserver);
    }

    /**
     * <pre>
     * SetLimit sets how many permits a semaphore has.
     * </pre>
     */
    default void setLimit(io.lockd.v1.SetLimitRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.SetLimitResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSetLimitMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service LockService.
   * <pre>
   * LockService is for callers that cannot keep a stream: shells, cron jobs, functions. Its leases are fixed: they
   * are never renewed and end by themselves. Each belongs to a lease id that only its caller knows.
   * </pre>
   */
  public static abstract class LockServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return LockServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service LockService.
   * <pre>
   * LockService is for callers that cannot keep a stream: shells, cron jobs, functions. Its leases are fixed: they
   * are never renewed and end by themselves. Each belongs to a lease id that only its caller knows.
   * </pre>
   */
  public static final class LockServiceStub
      extends io.grpc.stub.AbstractAsyncStub<LockServiceStub> {
    private LockServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LockServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LockServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Acquire takes a lock for a fixed time.
     * </pre>
     */
    public void acquire(io.lockd.v1.AcquireRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.AcquireResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getAcquireMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Extend sets how long a lease lasts from now.
     * </pre>
     */
    public void extend(io.lockd.v1.ExtendRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ExtendResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getExtendMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Release gives a lease back.
     * </pre>
     */
    public void release(io.lockd.v1.ReleaseRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ReleaseResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getReleaseMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Get tells what is known of a name.
     * </pre>
     */
    public void get(io.lockd.v1.GetRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.GetResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * List lists the names that are held, from the store, in no order.
     * </pre>
     */
    public void list(io.lockd.v1.ListRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * SetLimit sets how many permits a semaphore has.
     * </pre>
     */
    public void setLimit(io.lockd.v1.SetLimitRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.SetLimitResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSetLimitMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service LockService.
   * <pre>
   * LockService is for callers that cannot keep a stream: shells, cron jobs, functions. Its leases are fixed: they
   * are never renewed and end by themselves. Each belongs to a lease id that only its caller knows.
   * </pre>
   */
  public static final class LockServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<LockServiceBlockingStub> {
    private LockServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LockServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LockServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Acquire takes a lock for a fixed time.
     * </pre>
     */
    public io.lockd.v1.AcquireResponse acquire(io.lockd.v1.AcquireRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getAcquireMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Extend sets how long a lease lasts from now.
     * </pre>
     */
    public io.lockd.v1.ExtendResponse extend(io.lockd.v1.ExtendRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getExtendMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Release gives a lease back.
     * </pre>
     */
    public io.lockd.v1.ReleaseResponse release(io.lockd.v1.ReleaseRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getReleaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Get tells what is known of a name.
     * </pre>
     */
    public io.lockd.v1.GetResponse get(io.lockd.v1.GetRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * List lists the names that are held, from the store, in no order.
     * </pre>
     */
    public io.lockd.v1.ListResponse list(io.lockd.v1.ListRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SetLimit sets how many permits a semaphore has.
     * </pre>
     */
    public io.lockd.v1.SetLimitResponse setLimit(io.lockd.v1.SetLimitRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSetLimitMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service LockService.
   * <pre>
   * LockService is for callers that cannot keep a stream: shells, cron jobs, functions. Its leases are fixed: they
   * are never renewed and end by themselves. Each belongs to a lease id that only its caller knows.
   * </pre>
   */
  public static final class LockServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<LockServiceFutureStub> {
    private LockServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LockServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LockServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Acquire takes a lock for a fixed time.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.AcquireResponse> acquire(
        io.lockd.v1.AcquireRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getAcquireMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Extend sets how long a lease lasts from now.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.ExtendResponse> extend(
        io.lockd.v1.ExtendRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getExtendMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Release gives a lease back.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.ReleaseResponse> release(
        io.lockd.v1.ReleaseRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getReleaseMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Get tells what is known of a name.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.GetResponse> get(
        io.lockd.v1.GetRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * List lists the names that are held, from the store, in no order.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.ListResponse> list(
        io.lockd.v1.ListRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * SetLimit sets how many permits a semaphore has.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.SetLimitResponse> setLimit(
        io.lockd.v1.SetLimitRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSetLimitMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_ACQUIRE = 0;
  private static final int METHODID_EXTEND = 1;
  private static final int METHODID_RELEASE = 2;
  private static final int METHODID_GET = 3;
  private static final int METHODID_LIST = 4;
  private static final int METHODID_SET_LIMIT = 5;

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
        case METHODID_ACQUIRE:
          serviceImpl.acquire((io.lockd.v1.AcquireRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.AcquireResponse>) responseObserver);
          break;
        case METHODID_EXTEND:
          serviceImpl.extend((io.lockd.v1.ExtendRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.ExtendResponse>) responseObserver);
          break;
        case METHODID_RELEASE:
          serviceImpl.release((io.lockd.v1.ReleaseRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.ReleaseResponse>) responseObserver);
          break;
        case METHODID_GET:
          serviceImpl.get((io.lockd.v1.GetRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.GetResponse>) responseObserver);
          break;
        case METHODID_LIST:
          serviceImpl.list((io.lockd.v1.ListRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.ListResponse>) responseObserver);
          break;
        case METHODID_SET_LIMIT:
          serviceImpl.setLimit((io.lockd.v1.SetLimitRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.SetLimitResponse>) responseObserver);
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
          getAcquireMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.AcquireRequest,
              io.lockd.v1.AcquireResponse>(
                service, METHODID_ACQUIRE)))
        .addMethod(
          getExtendMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.ExtendRequest,
              io.lockd.v1.ExtendResponse>(
                service, METHODID_EXTEND)))
        .addMethod(
          getReleaseMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.ReleaseRequest,
              io.lockd.v1.ReleaseResponse>(
                service, METHODID_RELEASE)))
        .addMethod(
          getGetMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.GetRequest,
              io.lockd.v1.GetResponse>(
                service, METHODID_GET)))
        .addMethod(
          getListMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.ListRequest,
              io.lockd.v1.ListResponse>(
                service, METHODID_LIST)))
        .addMethod(
          getSetLimitMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.SetLimitRequest,
              io.lockd.v1.SetLimitResponse>(
                service, METHODID_SET_LIMIT)))
        .build();
  }

  private static abstract class LockServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    LockServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.lockd.v1.LockServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("LockService");
    }
  }

  private static final class LockServiceFileDescriptorSupplier
      extends LockServiceBaseDescriptorSupplier {
    LockServiceFileDescriptorSupplier() {}
  }

  private static final class LockServiceMethodDescriptorSupplier
      extends LockServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    LockServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (LockServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new LockServiceFileDescriptorSupplier())
              .addMethod(getAcquireMethod())
              .addMethod(getExtendMethod())
              .addMethod(getReleaseMethod())
              .addMethod(getGetMethod())
              .addMethod(getListMethod())
              .addMethod(getSetLimitMethod())
              .build();
        }
      }
    }
    return result;
  }
}
