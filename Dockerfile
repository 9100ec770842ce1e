# channeld and channelctl in an image that holds nothing but them and the libraries they need.
#
#   docker build -t channeld .                       the image
#   docker build --target test .                     builds and runs all tests in it (release)
#   docker buildx build --platform linux/amd64,linux/arm64 ...      cross-built; scripts/release makes archives of them

ARG BASE=debian:trixie-slim

# --- What building takes. Kept as a layer until this list changes. Another platform's programs are cross-built. ---
FROM --platform=$BUILDPLATFORM ${BASE} AS tools
WORKDIR /src
COPY deploy/image/tools deploy/image/tools
ARG TARGETARCH
RUN deploy/image/tools ${TARGETARCH}

# --- The programs. ---
FROM tools AS build
COPY CMakeLists.txt CMakePresets.json LICENSE ./
COPY cmake cmake
COPY deps deps
COPY docs/openapi.json docs/openapi.json
COPY src src
COPY deploy/image deploy/image
COPY scripts/sbom scripts/sbom
ARG SOURCE_DATE_EPOCH=0
RUN deploy/image/build /root-of-image /sbom.cdx.json ${TARGETARCH}

# --- The bill of materials of the image: docker build --target sbom --output FOLDER . ---
FROM scratch AS sbom
COPY --from=build /sbom.cdx.json /

# --- The Debian package of the base's release: docker build --target packages --output FOLDER . ---
FROM tools AS package
COPY . .
ARG SOURCE_DATE_EPOCH=0
RUN deploy/image/package /packages ${TARGETARCH}

FROM scratch AS packages
COPY --from=package /packages /

# --- The tests: docker build --target test . ---
FROM tools AS test
RUN apt-get -qq update && \
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
        curl libcmocka-dev openssl pkg-config python3 python3-jsonschema redis-server redis-tools valgrind zstd >/dev/null && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/archives
COPY . .
RUN scripts/test --preset release

# --- What fills the Redis of docker-compose.yml (deploy/compose/seed): channelctl in the image that its libraries are from. ---
FROM ${BASE} AS seed
COPY --from=build /root-of-image/usr /usr

# --- The image. ---
FROM scratch
ARG VERSION=2.0.0
ARG REVISION=unknown
ARG SOURCE=
LABEL org.opencontainers.image.title="channeld" \
      org.opencontainers.image.description="A read-only JSON API over public channels kept in Redis" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /root-of-image /
USER 65532:65532
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=2 CMD ["/usr/bin/channeld", "--probe"]
ENTRYPOINT ["/usr/bin/channeld"]
