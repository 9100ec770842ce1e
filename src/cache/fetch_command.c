/* Commands put together beforehand; see fetch_command.h. */
#include "cache/fetch_command.h"

#include "redis/resp.h"

static int init_hmget(struct fetch_commands *c, enum channel_shape shape)
{
    size_t count = 0;
    const enum channel_field *fields = channel_shape_fields(shape, &count);
    struct buf *text = &c->hmget[shape].text;
    command_begin(text, 2 + count);
    command_add(text, SPAN("HMGET"));
    c->hmget[shape].head = text->len;
    for (size_t i = 0; i < count; i++)
        command_add(text, channel_field_name(fields[i]));
    return buf_error(text);
}

/* The head of the digest, which has always the same length, is made by a word of that length, cut off again.
 */
static int init_sismember(struct fetch_commands *c, const struct keyspace *k)
{
    static const char digest[DIGEST_HEX_LEN];
    struct buf key = BUF_INIT;
    keyspace_api_keys(k, &key);
    command_begin(&c->sismember, 3);
    command_add(&c->sismember, SPAN("SISMEMBER"));
    command_add_buf(&c->sismember, &key);
    command_add(&c->sismember, (struct span){digest, sizeof digest});
    int err = buf_error(&c->sismember);
    buf_fini(&key);
    if (err == 0)
        c->sismember.len -= sizeof digest + 2;
    return err;
}

int fetch_commands_init(struct fetch_commands *c, const struct keyspace *k)
{
    *c = (struct fetch_commands){0};
    int err = init_hmget(c, CHANNEL_CARD);
    if (err == 0)
        err = init_hmget(c, CHANNEL_SUMMARY);
    return err == 0 ? init_sismember(c, k) : err;
}

void fetch_commands_fini(struct fetch_commands *c)
{
    buf_fini(&c->hmget[CHANNEL_CARD].text);
    buf_fini(&c->hmget[CHANNEL_SUMMARY].text);
    buf_fini(&c->sismember);
}

void fetch_command_hmget(const struct fetch_commands *c, struct buf *out, enum channel_shape shape,
                         const struct buf *key)
{
    struct span text = buf_span(&c->hmget[shape].text);
    size_t head = c->hmget[shape].head;
    buf_append(out, text.data, head);
    command_add_buf(out, key);
    buf_append_span(out, span_skip(text, head));
}

void fetch_command_sismember(const struct fetch_commands *c, struct buf *out, const struct digest *key)
{
    char word[DIGEST_HEX_LEN + 2];
    digest_hex(key, word);
    word[DIGEST_HEX_LEN] = '\r';
    word[DIGEST_HEX_LEN + 1] = '\n';
    buf_append_span(out, buf_span(&c->sismember));
    buf_append(out, word, sizeof word);
}
