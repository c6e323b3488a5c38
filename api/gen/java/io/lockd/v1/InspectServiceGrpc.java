package io.lockd.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * InspectService is for people who want to see. It changes nothing.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class InspectServiceGrpc {

  private InspectServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "lockd.v1.InspectService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.GetStatusRequest,
      io.lockd.v1.GetStatusResponse> getGetStatusMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetStatus",
      requestType = io.lockd.v1.GetStatusRequest.class,
      responseType = io.lockd.v1.GetStatusResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.GetStatusRequest,
      io.lockd.v1.GetStatusResponse> getGetStatusMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.GetStatusRequest, io.lockd.v1.GetStatusResponse> getGetStatusMethod;
    if ((getGetStatusMethod = InspectServiceGrpc.getGetStatusMethod) == null) {
      synchronized (InspectServiceGrpc.class) {
        if ((getGetStatusMethod = InspectServiceGrpc.getGetStatusMethod) == null) {
          InspectServiceGrpc.getGetStatusMethod = getGetStatusMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.GetStatusRequest, io.lockd.v1.GetStatusResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetStatus"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.GetStatusRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.GetStatusResponse.getDefaultInstance()))
              .setSchemaDescriptor(new InspectServiceMethodDescriptorSupplier("GetStatus"))
              .build();
        }
      }
    }
    return getGetStatusMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.InspectRequest,
      io.lockd.v1.InspectResponse> getInspectMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Inspect",
      requestType = io.lockd.v1.InspectRequest.class,
      responseType = io.lockd.v1.InspectResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.InspectRequest,
      io.lockd.v1.InspectResponse> getInspectMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.InspectRequest, io.lockd.v1.InspectResponse> getInspectMethod;
    if ((getInspectMethod = InspectServiceGrpc.getInspectMethod) == null) {
      synchronized (InspectServiceGrpc.class) {
        if ((getInspectMethod = InspectServiceGrpc.getInspectMethod) == null) {
          InspectServiceGrpc.getInspectMethod = getInspectMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.InspectRequest, io.lockd.v1.InspectResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Inspect"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.InspectRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.InspectResponse.getDefaultInstance()))
              .setSchemaDescriptor(new InspectServiceMethodDescriptorSupplier("Inspect"))
              .build();
        }
      }
    }
    return getInspectMethod;
  }

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
    if ((getListSessionsMethod = InspectServiceGrpc.getListSessionsMethod) == null) {
      synchronized (InspectServiceGrpc.class) {
        if ((getListSessionsMethod = InspectServiceGrpc.getListSessionsMethod) == null) {
          InspectServiceGrpc.getListSessionsMethod = getListSessionsMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.ListSessionsRequest, io.lockd.v1.ListSessionsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListSessions"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListSessionsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListSessionsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new InspectServiceMethodDescriptorSupplier("ListSessions"))
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
    if ((getListLocksMethod = InspectServiceGrpc.getListLocksMethod) == null) {
      synchronized (InspectServiceGrpc.class) {
        if ((getListLocksMethod = InspectServiceGrpc.getListLocksMethod) == null) {
          InspectServiceGrpc.getListLocksMethod = getListLocksMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.ListLocksRequest, io.lockd.v1.ListLocksResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListLocks"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListLocksRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListLocksResponse.getDefaultInstance()))
              .setSchemaDescriptor(new InspectServiceMethodDescriptorSupplier("ListLocks"))
              .build();
        }
      }
    }
    return getListLocksMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.ListHoldsRequest,
      io.lockd.v1.ListHoldsResponse> getListHoldsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListHolds",
      requestType = io.lockd.v1.ListHoldsRequest.class,
      responseType = io.lockd.v1.ListHoldsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.ListHoldsRequest,
      io.lockd.v1.ListHoldsResponse> getListHoldsMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.ListHoldsRequest, io.lockd.v1.ListHoldsResponse> getListHoldsMethod;
    if ((getListHoldsMethod = InspectServiceGrpc.getListHoldsMethod) == null) {
      synchronized (InspectServiceGrpc.class) {
        if ((getListHoldsMethod = InspectServiceGrpc.getListHoldsMethod) == null) {
          InspectServiceGrpc.getListHoldsMethod = getListHoldsMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.ListHoldsRequest, io.lockd.v1.ListHoldsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListHolds"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListHoldsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListHoldsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new InspectServiceMethodDescriptorSupplier("ListHolds"))
              .build();
        }
      }
    }
    return getListHoldsMethod;
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
    if ((getListWaitersMethod = InspectServiceGrpc.getListWaitersMethod) == null) {
      synchronized (InspectServiceGrpc.class) {
        if ((getListWaitersMethod = InspectServiceGrpc.getListWaitersMethod) == null) {
          InspectServiceGrpc.getListWaitersMethod = getListWaitersMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.ListWaitersRequest, io.lockd.v1.ListWaitersResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListWaiters"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListWaitersRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListWaitersResponse.getDefaultInstance()))
              .setSchemaDescriptor(new InspectServiceMethodDescriptorSupplier("ListWaiters"))
              .build();
        }
      }
    }
    return getListWaitersMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.lockd.v1.ListDeadlocksRequest,
      io.lockd.v1.ListDeadlocksResponse> getListDeadlocksMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListDeadlocks",
      requestType = io.lockd.v1.ListDeadlocksRequest.class,
      responseType = io.lockd.v1.ListDeadlocksResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.lockd.v1.ListDeadlocksRequest,
      io.lockd.v1.ListDeadlocksResponse> getListDeadlocksMethod() {
    io.grpc.MethodDescriptor<io.lockd.v1.ListDeadlocksRequest, io.lockd.v1.ListDeadlocksResponse> getListDeadlocksMethod;
    if ((getListDeadlocksMethod = InspectServiceGrpc.getListDeadlocksMethod) == null) {
      synchronized (InspectServiceGrpc.class) {
        if ((getListDeadlocksMethod = InspectServiceGrpc.getListDeadlocksMethod) == null) {
          InspectServiceGrpc.getListDeadlocksMethod = getListDeadlocksMethod =
              io.grpc.MethodDescriptor.<io.lockd.v1.ListDeadlocksRequest, io.lockd.v1.ListDeadlocksResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListDeadlocks"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListDeadlocksRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.lockd.v1.ListDeadlocksResponse.getDefaultInstance()))
              .setSchemaDescriptor(new InspectServiceMethodDescriptorSupplier("ListDeadlocks"))
              .build();
        }
      }
    }
    return getListDeadlocksMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static InspectServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<InspectServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<InspectServiceStub>() {
        @java.lang.Override
        public InspectServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new InspectServiceStub(channel, callOptions);
        }
      };
    return InspectServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static InspectServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<InspectServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<InspectServiceBlockingStub>() {
        @java.lang.Override
        public InspectServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new InspectServiceBlockingStub(channel, callOptions);
        }
      };
    return InspectServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static InspectServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<InspectServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<InspectServiceFutureStub>() {
        @java.lang.Override
        public InspectServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new InspectServiceFutureStub(channel, callOptions);
        }
      };
    return InspectServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * InspectService is for people who want to see. It changes nothing.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * GetStatus tells about the replica that answers.
     * </pre>
     */
    default void getStatus(io.lockd.v1.GetStatusRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.GetStatusResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetStatusMethod(), responseObserver);
    }

    /**
     * <pre>
     * Inspect tells who holds a name and who waits for it, wherever they are. The replicas are asked for what they know.
     * </pre>
     */
    default void inspect(io.lockd.v1.InspectRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.InspectResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getInspectMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListSessions lists the open sessions: those of the replica that answers, or those of all replicas.
     * </pre>
     */
    default void listSessions(io.lockd.v1.ListSessionsRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListSessionsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListSessionsMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListLocks lists the leases that sessions of the replica that answers hold.
     * </pre>
     */
    default void listLocks(io.lockd.v1.ListLocksRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListLocksResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListLocksMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListHolds lists what is held, and by whom, on all replicas and by other programs. The replicas are asked for what they know.
     * </pre>
     */
    default void listHolds(io.lockd.v1.ListHoldsRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListHoldsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListHoldsMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListWaiters lists the requests that wait for a name, in their order: for a fair lock all there are anywhere, for
     * others those of the replica that answers. Without a name it lists those that wait for any name, on all replicas.
     * </pre>
     */
    default void listWaiters(io.lockd.v1.ListWaitersRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListWaitersResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListWaitersMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListDeadlocks looks for requests of any replicas that wait for each other in a circle.
     * </pre>
     */
    default void listDeadlocks(io.lockd.v1.ListDeadlocksRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListDeadlocksResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListDeadlocksMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service InspectService.
   * <pre>
   * InspectService is for people who want to see. It changes nothing.
   * </pre>
   */
  public static abstract class InspectServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return InspectServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service InspectService.
   * <pre>
   * InspectService is for people who want to see. It changes nothing.
   * </pre>
   */
  public static final class InspectServiceStub
      extends io.grpc.stub.AbstractAsyncStub<InspectServiceStub> {
    private InspectServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected InspectServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new InspectServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * GetStatus tells about the replica that answers.
     * </pre>
     */
    public void getStatus(io.lockd.v1.GetStatusRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.GetStatusResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetStatusMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Inspect tells who holds a name and who waits for it, wherever they are. The replicas are asked for what they know.
     * </pre>
     */
    public void inspect(io.lockd.v1.InspectRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.InspectResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getInspectMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListSessions lists the open sessions: those of the replica that answers, or those of all replicas.
     * </pre>
     */
    public void listSessions(io.lockd.v1.ListSessionsRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListSessionsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListSessionsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListLocks lists the leases that sessions of the replica that answers hold.
     * </pre>
     */
    public void listLocks(io.lockd.v1.ListLocksRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListLocksResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListLocksMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListHolds lists what is held, and by whom, on all replicas and by other programs. The replicas are asked for what they know.
     * </pre>
     */
    public void listHolds(io.lockd.v1.ListHoldsRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListHoldsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListHoldsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListWaiters lists the requests that wait for a name, in their order: for a fair lock all there are anywhere, for
     * others those of the replica that answers. Without a name it lists those that wait for any name, on all replicas.
     * </pre>
     */
    public void listWaiters(io.lockd.v1.ListWaitersRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListWaitersResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListWaitersMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListDeadlocks looks for requests of any replicas that wait for each other in a circle.
     * </pre>
     */
    public void listDeadlocks(io.lockd.v1.ListDeadlocksRequest request,
        io.grpc.stub.StreamObserver<io.lockd.v1.ListDeadlocksResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListDeadlocksMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service InspectService.
   * <pre>
   * InspectService is for people who want to see. It changes nothing.
   * </pre>
   */
  public static final class InspectServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<InspectServiceBlockingStub> {
    private InspectServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected InspectServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new InspectServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * GetStatus tells about the replica that answers.
     * </pre>
     */
    public io.lockd.v1.GetStatusResponse getStatus(io.lockd.v1.GetStatusRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetStatusMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Inspect tells who holds a name and who waits for it, wherever they are. The replicas are asked for what they know.
     * </pre>
     */
    public io.lockd.v1.InspectResponse inspect(io.lockd.v1.InspectRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getInspectMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListSessions lists the open sessions: those of the replica that answers, or those of all replicas.
     * </pre>
     */
    public io.lockd.v1.ListSessionsResponse listSessions(io.lockd.v1.ListSessionsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListSessionsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListLocks lists the leases that sessions of the replica that answers hold.
     * </pre>
     */
    public io.lockd.v1.ListLocksResponse listLocks(io.lockd.v1.ListLocksRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListLocksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListHolds lists what is held, and by whom, on all replicas and by other programs. The replicas are asked for what they know.
     * </pre>
     */
    public io.lockd.v1.ListHoldsResponse listHolds(io.lockd.v1.ListHoldsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListHoldsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListWaiters lists the requests that wait for a name, in their order: for a fair lock all there are anywhere, for
     * others those of the replica that answers. Without a name it lists those that wait for any name, on all replicas.
     * </pre>
     */
    public io.lockd.v1.ListWaitersResponse listWaiters(io.lockd.v1.ListWaitersRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListWaitersMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListDeadlocks looks for requests of any replicas that wait for each other in a circle.
     * </pre>
     */
    public io.lockd.v1.ListDeadlocksResponse listDeadlocks(io.lockd.v1.ListDeadlocksRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListDeadlocksMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service InspectService.
   * <pre>
   * InspectService is for people who want to see. It changes nothing.
   * </pre>
   */
  public static final class InspectServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<InspectServiceFutureStub> {
    private InspectServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected InspectServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new InspectServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * GetStatus tells about the replica that answers.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.GetStatusResponse> getStatus(
        io.lockd.v1.GetStatusRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetStatusMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Inspect tells who holds a name and who waits for it, wherever they are. The replicas are asked for what they know.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.InspectResponse> inspect(
        io.lockd.v1.InspectRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getInspectMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListSessions lists the open sessions: those of the replica that answers, or those of all replicas.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.ListSessionsResponse> listSessions(
        io.lockd.v1.ListSessionsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListSessionsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListLocks lists the leases that sessions of the replica that answers hold.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.ListLocksResponse> listLocks(
        io.lockd.v1.ListLocksRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListLocksMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListHolds lists what is held, and by whom, on all replicas and by other programs. The replicas are asked for what they know.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.ListHoldsResponse> listHolds(
        io.lockd.v1.ListHoldsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListHoldsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListWaiters lists the requests that wait for a name, in their order: for a fair lock all there are anywhere, for
     * others those of the replica that answers. Without a name it lists those that wait for any name, on all replicas.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.ListWaitersResponse> listWaiters(
        io.lockd.v1.ListWaitersRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListWaitersMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListDeadlocks looks for requests of any replicas that wait for each other in a circle.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.lockd.v1.ListDeadlocksResponse> listDeadlocks(
        io.lockd.v1.ListDeadlocksRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListDeadlocksMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_GET_STATUS = 0;
  private static final int METHODID_INSPECT = 1;
  private static final int METHODID_LIST_SESSIONS = 2;
  private static final int METHODID_LIST_LOCKS = 3;
  private static final int METHODID_LIST_HOLDS = 4;
  private static final int METHODID_LIST_WAITERS = 5;
  private static final int METHODID_LIST_DEADLOCKS = 6;

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
        case METHODID_GET_STATUS:
          serviceImpl.getStatus((io.lockd.v1.GetStatusRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.GetStatusResponse>) responseObserver);
          break;
        case METHODID_INSPECT:
          serviceImpl.inspect((io.lockd.v1.InspectRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.InspectResponse>) responseObserver);
          break;
        case METHODID_LIST_SESSIONS:
          serviceImpl.listSessions((io.lockd.v1.ListSessionsRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.ListSessionsResponse>) responseObserver);
          break;
        case METHODID_LIST_LOCKS:
          serviceImpl.listLocks((io.lockd.v1.ListLocksRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.ListLocksResponse>) responseObserver);
          break;
        case METHODID_LIST_HOLDS:
          serviceImpl.listHolds((io.lockd.v1.ListHoldsRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.ListHoldsResponse>) responseObserver);
          break;
        case METHODID_LIST_WAITERS:
          serviceImpl.listWaiters((io.lockd.v1.ListWaitersRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.ListWaitersResponse>) responseObserver);
          break;
        case METHODID_LIST_DEADLOCKS:
          serviceImpl.listDeadlocks((io.lockd.v1.ListDeadlocksRequest) request,
              (io.grpc.stub.StreamObserver<io.lockd.v1.ListDeadlocksResponse>) responseObserver);
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
          getGetStatusMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.GetStatusRequest,
              io.lockd.v1.GetStatusResponse>(
                service, METHODID_GET_STATUS)))
        .addMethod(
          getInspectMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.InspectRequest,
              io.lockd.v1.InspectResponse>(
                service, METHODID_INSPECT)))
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
          getListHoldsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.ListHoldsRequest,
              io.lockd.v1.ListHoldsResponse>(
                service, METHODID_LIST_HOLDS)))
        .addMethod(
          getListWaitersMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.ListWaitersRequest,
              io.lockd.v1.ListWaitersResponse>(
                service, METHODID_LIST_WAITERS)))
        .addMethod(
          getListDeadlocksMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.lockd.v1.ListDeadlocksRequest,
              io.lockd.v1.ListDeadlocksResponse>(
                service, METHODID_LIST_DEADLOCKS)))
        .build();
  }

  private static abstract class InspectServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    InspectServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.lockd.v1.InspectServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("InspectService");
    }
  }

  private static final class InspectServiceFileDescriptorSupplier
      extends InspectServiceBaseDescriptorSupplier {
    InspectServiceFileDescriptorSupplier() {}
  }

  private static final class InspectServiceMethodDescriptorSupplier
      extends InspectServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    InspectServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (InspectServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new InspectServiceFileDescriptorSupplier())
              .addMethod(getGetStatusMethod())
              .addMethod(getInspectMethod())
              .addMethod(getListSessionsMethod())
              .addMethod(getListLocksMethod())
              .addMethod(getListHoldsMethod())
              .addMethod(getListWaitersMethod())
              .addMethod(getListDeadlocksMethod())
              .build();
        }
      }
    }
    return result;
  }
}
