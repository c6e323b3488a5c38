# lockd and lockctl as static programs, in an image that holds nothing else: no shell, no package manager, no libc.
#
# `docker build .` makes it with Go of the first image. `make image` compiles on this machine instead, and gives the
# programs to the build in the place of the stage "build": then nothing is fetched, and one commit gives one digest.

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
RUN mkdir -p /out/$TARGETARCH && CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
    -ldflags "-s -w -X main.version=$VERSION" -o /out/$TARGETARCH/ ./cmd/lockd ./cmd/lockctl && \
    cd tools/sbom && go run . lockd "$VERSION" /out/$TARGETARCH/lockd /out/$TARGETARCH/lockctl > /out/$TARGETARCH/sbom.cdx.json

FROM scratch
ARG TARGETARCH
# /lockd, /lockctl, and what they were built of: /sbom.cdx.json. The authorities of the web are in the programs.
COPY --from=build --chmod=0755 /out/$TARGETARCH/ /

# A number, not a name: there is no /etc/passwd to look a name up in, and Kubernetes' runAsNonRoot wants a number.
# Nothing is ever written: the root may be read-only.
USER 65532:65532

# 7420 clients, 7421 metrics and probes. lockd listens on all addresses unless it is told otherwise.
EXPOSE 7420 7421

ENTRYPOINT ["/lockd"]

ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="lockd" \
      org.opencontainers.image.description="A lock broker" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/lockd-io/lockd" \
      org.opencontainers.image.documentation="https://github.com/lockd-io/lockd/blob/main/docs/deploy.md" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
