# nginx with the pages that it serves: the reference page of the API, the dashboard, and the start page. What draws them is what
# scripts/reference has fetched before, if anything, or else comes by npm; --build-arg NPM_CONFIG_REGISTRY=... names another
# registry. Where npm reaches none, pages that say so take their place: the API does not wait for its documentation.
#
#   docker build -f deploy/compose/nginx.Dockerfile .

ARG NGINX_IMAGE=nginx:stable
ARG NODE_IMAGE=node:22-slim

FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS pages
WORKDIR /src
COPY scripts/reference scripts/dashboard scripts/
# The brackets make a pattern of a folder that need not be there.
COPY deps/npm buil[d]/deps/npm/swagger-ui-dist-*.tgz buil[d]/deps/npm/uplot-*.tgz deps/
COPY docs/reference docs/reference
COPY docs/*.md docs/openapi.json docs/
COPY deploy/dashboard deploy/dashboard
COPY deploy/grafana/channeld.json deploy/grafana/channeld.json
COPY deploy/compose/start deploy/compose/start
COPY deploy/compose/pages deploy/compose/pages
ARG NPM_CONFIG_REGISTRY
RUN deploy/compose/pages /pages

FROM ${NGINX_IMAGE}
COPY --from=pages /pages /usr/share/channeld
USER 65533:65533
STOPSIGNAL SIGQUIT
HEALTHCHECK --interval=2s --timeout=3s --start-period=10s \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8082 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q '^HTTP/1.1 204' <&3"]
CMD ["/etc/nginx/channeld/start"]
