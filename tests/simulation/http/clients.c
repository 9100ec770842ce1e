/*
 * Clients. The input of a client is made when it connects, from a grammar, the corpus of the fuzzers, and
 * mutations of both. It is sent in pieces of any size.
 */
#include "simulation/events.h"
#include "simulation/http/scenario.h"
#include "simulation/random.h"
#include "simulation/trace.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CORPUS_MAX = 64, REQUESTS_MAX = 12, PIPELINE = 60, CLIENTS_MAX = STREAMS_MAX - 10 };

static const uint64_t BURST_NS = 5 * SECOND; /* from one to the next */

static struct buf corpus[CORPUS_MAX];
static unsigned corpus_count;
static uint64_t end_ns;

static unsigned below(unsigned n)
{
    return random_below(STREAM_CLIENTS, n);
}

/* --- the corpus: behind a line of lengths --- */

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void load(const char *name)
{
    char path[512];
    char bytes[8192];
    (void)snprintf(path, sizeof path, "%s/%s", SIMULATION_CORPUS, name);
    FILE *file = fopen(path, "re");
    size_t n = file == NULL ? 0 : fread(bytes, 1, sizeof bytes, file);
    const char *line = memchr(bytes, '\n', n);
    if (file != NULL)
        (void)fclose(file);
    if (line != NULL)
        buf_append(&corpus[corpus_count++], line + 1, n - (size_t)(line + 1 - bytes));
}

void clients_load_corpus(void)
{
    struct dirent **entry = NULL;
    int n = scandir(SIMULATION_CORPUS, &entry, NULL, by_name);
    for (int i = 0; i < n; i++) {
        if (entry[i]->d_name[0] != '.' && corpus_count < CORPUS_MAX)
            load(entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    if (corpus_count == 0)
        trace_fail("there is no corpus");
}

/* --- scripts --- */

static const char *any(const char *const *texts, unsigned count)
{
    return texts[below(count)];
}

#define ANY(...) \
    any((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void add_body(struct buf *out)
{
    static const char letters[] = "GET / HTTP/1.1\r\n\r\n";
    unsigned n = below(10) == 0 ? below(600) : below(40);
    if (below(2) == 0) {
        buf_printf(out, "Content-Length: %u%s\r\n\r\n", n, ANY("", "", "\t", " \t "));
        for (unsigned i = 0; i < n; i++)
            buf_append_char(out, letters[i % (sizeof letters - 1)]);
        return;
    }
    buf_append_str(out, ANY("Transfer-Encoding: chunked\r\n\r\n", "transfer-encoding:CHUNKED \r\n\r\n",
                            "Transfer-Encoding:\tchunked \t\r\n\r\n"));
    for (unsigned left = n; left > 0;) {
        unsigned size = 1 + below(left);
        buf_printf(out, "%s%x%s\r\n", ANY("", "", "00"), size, ANY("", "", ";a=b"));
        for (unsigned i = 0; i < size; i++)
            buf_append_char(out, letters[i % (sizeof letters - 1)]);
        buf_append_str(out, "\r\n");
        left -= size;
    }
    buf_append_str(out, ANY("0\r\n\r\n", "0\r\n\r\n", "0\r\nT: v\r\n\r\n", "000\r\nHost: b\r\n\r\n"));
}

/* Appends bytes of the buffer itself. */
static void append_copy(struct buf *out, size_t from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        buf_append_char(out, out->data[from + i]);
}

/* Content that is a copy of the head, which begins at `from`: taken for the head, it is another request. */
static void add_head_twice(struct buf *out, size_t from)
{
    static const char name[] = "Content-Length: ";
    size_t len = out->len - from + sizeof name - 1 + strlen("00\r\n\r\n");
    len += len >= 100;
    buf_printf(out, "%s%zu\r\n\r\n", name, len);
    append_copy(out, from, len);
}

static void add_request(struct buf *out, unsigned number)
{
    bool has_body = below(4) == 0;
    bool old = below(10) == 0;
    buf_append_str(out, below(8) == 0 ? ANY("\r\n", "\r\n\r\n") : "");
    size_t from = out->len;
    buf_append_str(out, ANY("GET", "GET", "GET", "GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE"));
    buf_append_str(out, ANY(" /", " /", " /", " /a/", " /%41%7e", " /a%2Fb%2f", " http://a.example/",
                            " HTTPS://b:80/x/", " //"));
    buf_printf(out, "%u", number);
    buf_append_str(out, ANY("", "?", "?q=%20", "?a&b=?/"));
    if (below(20) == 0)
        for (unsigned i = below((unsigned)scenario.options.limits.head_max + 20); i > 0; i--)
            buf_append_char(out, 'a');
    static const char *const versions[] = {" RTSP/1.0\r\n", " HTTP/1.2\r\n", " HTTP/2.0\r\n"};
    unsigned version = below(200);
    buf_append_str(out, version < 3 ? versions[version] : old ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n");
    if (!old || below(2) == 0)
        buf_append_str(out, ANY("Host: a\r\n", "host:\ta.example:8080 \r\n", "HOST: [::1]\r\n"));
    buf_append_str(out, ANY("", "", "", "", "Connection: keep-alive\r\n", "Connection: x, Keep-Alive\r\n",
                            "Connection: x\t,\tkeep-alive\t\r\n", "X:\r\n", "Accept:\t*/*\t\r\n"));
    if (below(20) == 0)
        buf_append_str(out, "Content-Length: 0\r\n");
    if (below(25) == 0)
        buf_append_str(out, ANY("Connection: close\r\n", "connection: x\r\nConnection: Close\r\n",
                                "Connection: close\t\r\n"));
    if (below(30) == 0) {
        buf_append_str(out, "Long: ");
        for (unsigned i = below((unsigned)scenario.options.limits.head_max); i > 0; i--)
            buf_append_char(out, (char)('a' + i % 26));
        buf_append_str(out, "\r\n");
    }
    if (has_body && (!old || below(3) == 0)) {
        buf_append_str(out, below(3) == 0 ? "Expect: 100-continue\r\n" : "");
        if (below(3) == 0)
            add_head_twice(out, from);
        else
            add_body(out);
    } else {
        buf_append_str(out, "\r\n");
    }
}

/* Inserts, changes, removes or repeats a few bytes. */
static void mutate(struct buf *script, size_t from)
{
    static const char bytes[] = "\r\n\r\n \t:,;/?#%\0\x7f\xff"
                                "0a[]Hh*.1";
    struct buf changed = BUF_INIT;
    size_t at = from + below((unsigned)(script->len - from));
    unsigned how = below(4);
    unsigned n = 1 + below(3);
    buf_append(&changed, script->data, at);
    if (how == 0)
        for (unsigned i = 0; i < n; i++)
            buf_append_char(&changed, bytes[below(sizeof bytes - 1)]);
    if (how == 1 && at < script->len)
        buf_append_char(&changed, bytes[below(sizeof bytes - 1)]);
    if (how == 2)
        for (unsigned i = 0; i < n && at + i < script->len; i++)
            buf_append_char(&changed, script->data[at + i]);
    size_t skipped = how == 1 ? 1 : how == 3 ? n : 0;
    if (at + skipped < script->len)
        buf_append(&changed, script->data + at + skipped, script->len - at - skipped);
    buf_fini(script);
    *script = changed;
}

/* Version 2 of the PROXY protocol; now and then it is broken, or holds no address. */
static void add_proxy_header(struct client *c)
{
    unsigned number = client_number(c);
    unsigned kind = below(8);
    const unsigned char addresses[12] = {10, 1, (unsigned char)(number >> 8), (unsigned char)number, 10, 9,
                                         9,  9};
    unsigned extra = below(3) == 0 ? below(60) : 0;
    unsigned char fixed[] = {kind == 1 ? 0x31 : 0x21, 0x11, 0,
                             (unsigned char)((kind == 2 ? 3 : 12) + extra * (kind != 2))};
    buf_append(&c->script, "\r\n\r\n\0\r\nQUIT\n", 12);
    buf_append(&c->script, fixed, sizeof fixed);
    buf_append(&c->script, addresses, kind == 2 ? 3 : 12);
    for (unsigned i = 0; i < extra && kind != 2; i++)
        buf_append_char(&c->script, (char)i);
    c->header = c->script.len;
    c->bad_header = kind == 1 || kind == 2;
}

/* The number of a request that is answered at once, with few bytes. */
static unsigned short_request(void)
{
    char text[MODEL_TEXT_MAX];
    unsigned number = below(100);
    for (;; number++) {
        size_t len = (size_t)snprintf(text, sizeof text, "GET 1 /p%u!", number);
        struct plan p = application_plan(text, len);
        if (p.delay_ms == 0 && p.size < 300)
            return number;
    }
}

/* More requests than one write has responses, and in a burst more bytes than one read has. */
static void add_pipeline(struct buf *out, bool is_burst)
{
    unsigned number = is_burst || below(2) == 0 ? short_request() : below(4);
    int filler = is_burst ? (int)below(400) : 0;
    for (unsigned i = 0; i < PIPELINE; i++)
        buf_printf(out, "GET /p%u HTTP/1.1\r\nHost: a\r\nX: %0*d\r\n\r\n", number, filler, 0);
}

static void write_script(struct client *c)
{
    unsigned count = below(REQUESTS_MAX);
    size_t last = 0; /* where the last request begins */
    if (c->from_proxy && below(2) == 0)
        add_proxy_header(c);
    if (c->bursts || below(50) == 0) {
        add_pipeline(&c->script, c->bursts);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        size_t from = c->script.len;
        if (below(12) == 0) {
            const struct buf *seed = &corpus[below(corpus_count)];
            buf_append(&c->script, seed->data, seed->len);
        } else if (i > 0 && below(4) == 0) {
            append_copy(&c->script, last, from - last);
        } else {
            add_request(&c->script, i);
        }
        if (has_fault(FAULT_MUTATIONS) && below(10) == 0)
            mutate(&c->script, from);
        last = from;
    }
}

/* --- what a client does --- */

static void end(struct client *c)
{
    static const char *const names[] = {"half-closes", "closes", "resets"};
    unsigned how = below(3);
    TRACE("client", "%u %s", client_number(c), names[how]);
    if (how == 0) {
        stream_end(c->stream);
        return;
    }
    c->quits = c->done = true;
    if (how == 1)
        stream_close(c->stream);
    else
        stream_reset(c->stream);
}

/* Bytes of the model. */
static void feed(struct client *c, size_t from, size_t to)
{
    size_t begin = from > c->header ? from : c->header;
    if (to <= begin || c->bad_header)
        return;
    model_feed(&c->model, c->script.data + begin, to - begin);
    if (c->model.begun && (c->begun_ns == 0 || c->begun_at != c->model.begun_at)) {
        c->former_begun_ns = c->begun_ns;
        c->begun_ns = process_monotonic_ns();
        c->begun_at = c->model.begun_at;
    }
}

/* All that is left, a few bytes, or up to the end of a head, behind which a client may wait for 100. */
static size_t piece_length(const char *data, size_t left)
{
    const char *end = memmem(data, left, "\r\n\r\n", 4);
    switch (below(8)) {
    case 0:
    case 1:
        return 1 + below((unsigned)left);
    case 2:
    case 3:
        return end == NULL ? left : (size_t)(end - data) + 4;
    case 4:
    case 5:
        return 1 + below(left < 8 ? (unsigned)left : 8);
    default:
        return left;
    }
}

static void send_piece(struct client *c)
{
    size_t left = c->script.len - c->sent;
    size_t n = c->bursts ? left : piece_length(c->script.data + c->sent, left);
    TRACE("client", "%u sends %zu: %.*s", client_number(c), n, (int)(n < 60 ? n : 60),
          c->script.data + c->sent);
    trace_sum(n);
    feed(c, c->sent, c->sent + n);
    stream_send(c->stream, c->script.data + c->sent, n);
    c->sent += n;
    c->sent_ns = process_monotonic_ns();
}

static void on_send(void *arg, uint64_t number)
{
    struct client *c = arg;
    (void)number;
    if (c->done || c->stream->in_end)
        return;
    if (has_fault(FAULT_ENDS) && below(60) == 0) {
        end(c);
        return;
    }
    bool waits = !c->bursts && below(3) == 0 && c->responses < c->model.items; /* does not pipeline */
    if (c->sent < c->script.len && !waits)
        send_piece(c);
    if (c->sent == c->script.len) {
        if (below(3) == 0)
            end(c);
        return;
    }
    events_add_in(random_duration(STREAM_CLIENTS, 4 * SECOND), on_send, c, 0);
}

static void on_receive(void *arg, uint64_t number)
{
    struct client *c = arg;
    struct tcp *s = c->stream;
    (void)number;
    if (c->done)
        return;
    if (has_fault(FAULT_SLOW) && below(200) == 0) {
        c->reads = !c->reads || below(2) == 0;
        TRACE("client", "%u %s", client_number(c), c->reads ? "reads" : "stops reading");
    }
    if (s->out.len > 0 && c->reads) {
        stream_take(s, &c->in, below(3) == 0 ? 1 + below(1000) : SIZE_MAX);
        check_response(c);
    }
    if ((c->reads || s->lost) && stream_at_end(s)) {
        TRACE("client", "%u sees the end%s", client_number(c), s->lost ? ", reset" : "");
        check_end(c);
        c->done = true;
        if (!s->closed)
            stream_close(s);
        return;
    }
    events_add_in((uint64_t)MS + random_duration(STREAM_CLIENTS, 200 * (uint64_t)MS), on_receive, c, 0);
}

static void on_connect(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    if (streams_count >= CLIENTS_MAX || now_ns() > end_ns || scenario.closing)
        return;
    unsigned next = streams_count;
    bool from_proxy = has_fault(FAULT_PROXIES) && below(3) == 0;
    const uint8_t ip[] = {10, from_proxy ? 2 : 0, (uint8_t)(next >> 8), (uint8_t)next};
    struct tcp *s = streams_connect(below(streams_listeners()), ip);
    if (s != NULL) {
        struct client *c = &scenario.client[next];
        *c = (struct client){.stream = s, .reads = true, .from_proxy = from_proxy};
        c->model.head_max = scenario.options.limits.head_max;
        c->model.body_max = scenario.options.limits.body_max;
        TRACE("client", "%u connects", next);
        c->bursts = has_fault(FAULT_BURSTS) && below(2) == 0;
        write_script(c);
        uint64_t until_burst_ns = BURST_NS - now_ns() % BURST_NS;
        events_add_in(c->bursts ? until_burst_ns : random_duration(STREAM_CLIENTS, 2 * SECOND), on_send, c,
                      0);
        events_add_in((uint64_t)MS, on_receive, c, 0);
    }
    uint64_t each_ns = (end_ns / CLIENTS_MAX) * 3;
    events_add_in(below(4) == 0 ? 0 : random_bits(STREAM_CLIENTS) % each_ns, on_connect, NULL, 0);
}

void clients_begin(uint64_t length_ns)
{
    end_ns = length_ns;
    events_add_in(0, on_connect, NULL, 0);
}

void clients_fini(void)
{
    for (unsigned i = 0; i < streams_count; i++) {
        struct client *c = &scenario.client[i];
        model_fini(&c->model);
        buf_fini(&c->script);
        buf_fini(&c->in);
    }
}
