# channeld and channelctl in an image that holds nothing but them and the libraries they need.
#
#   docker build -t channeld .                       the image
#   docker build --target test .                     builds and runs all tests in it (release)
#   docker build --target nginx .                    nginx with the reference page and the dashboard, for docker-compose.yml
#   docker build --target prometheus .               Prometheus, for docker-compose.yml
#   docker build --target seed .                     channelctl, redis-cli and a shell, for docker-compose.yml
#   docker buildx build --platform linux/amd64,linux/arm64 ...      cross-built; scripts/release makes archives of them

ARG BASE=debian:trixie-slim
ARG NGINX_IMAGE=nginx:stable
ARG NODE_IMAGE=node:22-slim
ARG PROMETHEUS_IMAGE=prometheus-debian

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

# --- The pages that nginx serves: the reference page of the API, the dashboard, and the start page that leads to them. What draws
# them is what scripts/reference has fetched before, if anything, or else comes by npm; --build-arg NPM_CONFIG_REGISTRY=... names
# another registry. Where npm reaches none, pages that say so take their place: the API does not wait for its documentation. ---
FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS pages
WORKDIR /src
COPY scripts/reference scripts/dashboard scripts/
# The brackets make a pattern of a folder that need not be there.
COPY deps/npm buil[d]/deps/npm/swagger-ui-dist-*.tgz buil[d]/deps/npm/uplot-*.tgz deps/
COPY docs/reference docs/reference
COPY docs/openapi.json docs/runbook.md docs/
COPY deploy/dashboard deploy/dashboard
COPY deploy/grafana/channeld.json deploy/grafana/channeld.json
COPY deploy/compose/start deploy/compose/start
COPY deploy/image/pages deploy/image/pages
ARG NPM_CONFIG_REGISTRY
RUN deploy/image/pages /pages

FROM ${NGINX_IMAGE} AS nginx
COPY --from=pages /pages /usr/share/channeld

# --- Prometheus for docker-compose.yml, with promtool: Debian's. --build-arg PROMETHEUS_IMAGE=prom/prometheus:... takes the
# project's own instead, which has the same user and folders. ---
FROM ${BASE} AS prometheus-debian
RUN apt-get -qq update && \
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends prometheus >/dev/null && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/archives && \
    install -d -o nobody -g nogroup /prometheus
WORKDIR /prometheus
USER nobody
EXPOSE 9090
ENTRYPOINT ["/usr/bin/prometheus"]

FROM ${PROMETHEUS_IMAGE} AS prometheus

# --- What fills the Redis of docker-compose.yml (deploy/compose/seed): channelctl in the image that its libraries are from. ---
FROM ${BASE} AS seed
RUN apt-get -qq update && \
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends redis-tools >/dev/null && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/archives
COPY --from=build /root-of-image/usr /usr

# --- The image. ---
FROM scratch
ARG VERSION=1.1.4
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
