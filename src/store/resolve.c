/* Asynchronous name look-up; see resolve.h. */
#include "store/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>

static void add(struct resolver *r, const struct addrinfo *info)
{
    if (r->count == RESOLVE_ADDRESSES_MAX)
        return;
    char *out = r->address[r->count];
    const struct sockaddr *sa = info->ai_addr;
    const void *raw = NULL;
    if (sa->sa_family == AF_INET)
        raw = &((const struct sockaddr_in *)(const void *)sa)->sin_addr;
    else if (sa->sa_family == AF_INET6)
        raw = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
    if (raw != NULL && inet_ntop(sa->sa_family, raw, out, INET6_ADDRSTRLEN) != NULL)
        r->count++;
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct resolver *r = request->data;
    r->busy = false;
    r->count = 0;
    for (const struct addrinfo *info = found; info != NULL; info = info->ai_next)
        add(r, info);
    uv_freeaddrinfo(found);
    if (status == 0 && r->count == 0)
        status = UV_EAI_NODATA;
    r->done(r->arg, status);
}

bool resolver_take_numeric(struct resolver *r, const char *host)
{
    unsigned char raw[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, raw) != 1 && inet_pton(AF_INET6, host, raw) != 1)
        return false;
    (void)snprintf(r->address[0], sizeof r->address[0], "%s", host);
    r->count = 1;
    return true;
}

int resolver_start(struct resolver *r, uv_loop_t *loop, const char *host, void (*done)(void *arg, int err),
                   void *arg)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    r->request.data = r;
    r->done = done;
    r->arg = arg;
    int err = uv_getaddrinfo(loop, &r->request, on_resolved, host, NULL, &hints);
    r->busy = err == 0;
    return err;
}

void resolver_cancel(struct resolver *r)
{
    if (r->busy)
        (void)uv_cancel((uv_req_t *)&r->request);
}
