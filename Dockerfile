# lockd and lockctl as static programs, in an image that holds nothing else: no shell, no package manager, no libc.

# The build stage runs on the builder's own platform and cross-compiles: emulating another one is many times slower.
FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src

# Modules change less often than code; a layer of their own keeps them cached.
COPY go.mod go.sum ./
RUN go mod download

COPY . .
ARG TARGETOS
ARG TARGETARCH
# .git is not part of the build context, so the version comes from outside.
ARG VERSION=unknown
RUN mkdir /out && CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
    -ldflags "-s -w -X main.version=$VERSION" \
    -o /out/ ./cmd/lockd ./cmd/lockctl

FROM scratch
ARG VERSION=unknown
LABEL org.opencontainers.image.title="lockd" \
      org.opencontainers.image.description="A lock broker" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"

# The authorities that lockd trusts when it speaks TLS to Redis without a ca_file.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/lockd /out/lockctl /

# A number, not a name: there is no /etc/passwd to look a name up in, and Kubernetes' runAsNonRoot wants a number.
USER 65532:65532

# 7420 clients, 7421 metrics and probes. lockd listens on all addresses unless it is told otherwise.
EXPOSE 7420 7421

ENTRYPOINT ["/lockd"]
