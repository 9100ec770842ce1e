# Prometheus with promtool: Debian's. PROMETHEUS_IMAGE, such as prom/prometheus:v3.5.0, takes the project's own instead, which has the
# same user and folders.

ARG BASE=debian:trixie-slim
ARG PROMETHEUS_IMAGE=prometheus-debian

FROM ${BASE} AS prometheus-debian
RUN apt-get -qq update && \
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends prometheus >/dev/null && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/archives && \
    install -d -o nobody -g nogroup /prometheus
WORKDIR /prometheus
USER nobody
EXPOSE 9090
ENTRYPOINT ["/usr/bin/prometheus"]

FROM ${PROMETHEUS_IMAGE}
