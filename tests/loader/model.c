/* What a load may write; see model.h. */
#include "loader/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "support/text.h"

#define LINK "https://max.ru/"

/* --- Catalogues --- */

static int slot(char link)
{
    return link - 'a';
}

static bool lists(const struct model_order *o, int id)
{
    for (int i = 0; i < o->count; i++)
        if (o->id[i] == id)
            return true;
    return false;
}

static void append(struct model_order *o, int id)
{
    if (!lists(o, id))
        o->id[o->count++] = id;
}

static bool same_order(const struct model_order *a, const struct model_order *b)
{
    return a->count == b->count && memcmp(a->id, b->id, (size_t)a->count * sizeof a->id[0]) == 0;
}

static bool same_content(const struct model_catalogue *a, const struct model_catalogue *b)
{
    return memcmp(a->card, b->card, sizeof a->card) == 0 && memcmp(a->link, b->link, sizeof a->link) == 0;
}

bool model_equal(const struct model_catalogue *a, const struct model_catalogue *b)
{
    return same_content(a, b) && same_order(&a->index, &b->index);
}

bool model_ends_alike(const struct model_state *a, const struct model_state *b)
{
    return model_equal(&a->catalogue, &b->catalogue) && same_order(&a->next, &b->next);
}

/* A channel in one transaction: its card, its link key, and the key of its former link is removed. */
static void write_line(struct model_catalogue *c, const struct model_line *l)
{
    char former = c->card[l->id].link;
    if (former != 0 && former != l->card.link && c->link[slot(former)] == l->id)
        c->link[slot(former)] = 0;
    c->card[l->id] = l->card;
    if (l->card.link != 0)
        c->link[slot(l->card.link)] = l->id;
}

/* The last line of each channel, in the order in which the file first names them. */
static struct model_file set_of(const struct model_file *file)
{
    struct model_file set = {.name = file->name, .damaged = file->damaged};
    for (int i = 0; i < file->count; i++) {
        int at = 0;
        while (at < set.count && set.line[at].id != file->line[i].id)
            at++;
        set.line[at] = file->line[i];
        set.count += at == set.count;
    }
    return set;
}

static int channels_of(const struct model_file *file)
{
    return set_of(file).count;
}

/* Writes the channels of these positions in the set. */
static void write_channels(struct model_catalogue *c, const struct model_file *file, int from, int to,
                           bool list)
{
    struct model_file set = set_of(file);
    for (int i = from; i < to; i++) {
        write_line(c, &set.line[i]);
        if (list)
            append(&c->index, set.line[i].id);
    }
}

void model_fill(struct model_catalogue *out, const struct model_file *file)
{
    *out = (struct model_catalogue){0};
    write_channels(out, file, 0, channels_of(file), true);
}

/* --- Steps --- */

static struct model_order order_of(const struct model_file *file)
{
    struct model_catalogue c;
    model_fill(&c, file);
    return c.index;
}

bool model_has_channels(const struct model_load *l, const struct model_catalogue *c, int channels)
{
    struct model_catalogue expected = *c;
    write_channels(&expected, l->file, l->channels, channels, !l->replace);
    return model_equal(&expected, c);
}

static bool has_all_channels(const struct model_load *l, const struct model_catalogue *c)
{
    return model_has_channels(l, c, channels_of(l->file));
}

bool model_is_replaced(const struct model_load *l, const struct model_catalogue *c)
{
    struct model_order whole = order_of(l->file);
    return has_all_channels(l, c) && same_order(&c->index, &whole);
}

/* Cards that are not listed, and link keys whose channel has another link or no card. */
static bool is_removal(const struct model_catalogue *before, const struct model_catalogue *after)
{
    static const struct model_card none;
    for (int id = 0; id < MODEL_IDS; id++)
        if (memcmp(&before->card[id], &after->card[id], sizeof none) != 0 &&
            (memcmp(&after->card[id], &none, sizeof none) != 0 || lists(&before->index, id)))
            return false;
    for (int i = 0; i < MODEL_LINKS; i++)
        if (before->link[i] != after->link[i] &&
            (after->link[i] != 0 || slot(before->card[before->link[i]].link) == i))
            return false;
    return same_order(&before->index, &after->index);
}

static const char *replace_step(struct model_load *l, const struct model_catalogue *before,
                                const struct model_catalogue *after)
{
    struct model_order whole = order_of(l->file);
    if (!has_all_channels(l, before))
        return "it wrote something else than the next channels of its file";
    if (l->file->damaged)
        return "a damaged file must not become the catalogue";
    bool swaps = same_content(before, after) && same_order(&after->index, &whole);
    bool removes = same_order(&before->index, &whole) && is_removal(before, after);
    l->replaced = l->replaced || swaps || removes;
    return swaps || removes ? NULL : "it neither replaced the index nor removed what the index lacks";
}

const char *model_step(struct model_load *l, const struct model_catalogue *before,
                       const struct model_catalogue *after)
{
    struct model_catalogue expected = *before;
    if (model_equal(before, after))
        return NULL;
    for (int i = l->channels; i < channels_of(l->file); i++) {
        write_channels(&expected, l->file, i, i + 1, !l->replace);
        if (!model_equal(&expected, after))
            continue;
        l->channels = i + 1;
        return NULL;
    }
    return l->replace ? replace_step(l, before, after)
                      : "it wrote something else than the next channels of its file";
}

bool model_is_complete(const struct model_load *l, const struct model_catalogue *c)
{
    struct model_catalogue whole;
    model_fill(&whole, l->file);
    if (l->replace)
        return model_equal(&whole, c);
    for (int i = 0; i < whole.index.count; i++)
        if (!lists(&c->index, whole.index.id[i]))
            return false;
    return has_all_channels(l, c);
}

bool model_is_sound(const struct model_state *s)
{
    const struct model_catalogue *c = &s->catalogue;
    int cards = 0;
    for (int id = 0; id < MODEL_IDS; id++) {
        char link = c->card[id].link;
        cards += c->card[id].title != 0;
        if (link != 0 && c->link[slot(link)] != id)
            return false;
    }
    for (int i = 0; i < MODEL_LINKS; i++)
        if (c->link[i] != 0 && slot(c->card[c->link[i]].link) != i)
            return false;
    return cards == c->index.count && s->next.count == 0;
}

/* --- Text --- */

static char *card_text(int id, const struct model_card *card)
{
    char *text = text_printf("{\"max_channel_id\":%d,\"title\":\"%c\"", id, card->title);
    if (card->link != 0)
        text = text_append(text, text_temp(",\"link\":\"" LINK "%c\"", card->link));
    if (card->category != 0)
        text = text_append(text, text_temp(",\"category\":\"%c\"", card->category));
    return text_append(text, "}\n");
}

char *model_text(const struct model_file *file)
{
    char *text = text_printf("%s", "");
    for (int i = 0; i < file->count; i++) {
        AUTOFREE char *line = card_text(file->line[i].id, &file->line[i].card);
        text = text_append(text, line);
    }
    return file->damaged ? text_append(text, "{\"max_channel_id\":0}\n") : text;
}

char *model_script(const struct model_catalogue *c)
{
    AUTOFREE char *digest = text_repeat('5', 64);
    char *script = text_printf("redis.call('FLUSHALL') redis.call('SADD', 'channels:api_keys', '%s') "
                               "redis.call('SET', '" MODEL_FOREIGN "', '') ",
                               digest);
    for (int id = 0; id < MODEL_IDS; id++) {
        if (c->card[id].title == 0)
            continue;
        const struct model_card *card = &c->card[id];
        const char *link = card->link == 0 ? "" : text_temp(", 'link', '" LINK "%c'", card->link);
        const char *category = card->category == 0 ? "" : text_temp(", 'category', '%c'", card->category);
        script =
            text_append(script, text_temp("redis.call('HSET', 'channels:card:%d', 'max_channel_id', '%d', "
                                          "'title', '%c'%s%s) ",
                                          id, id, card->title, link, category));
    }
    for (int i = 0; i < MODEL_LINKS; i++)
        if (c->link[i] != 0)
            script = text_append(script, text_temp("redis.call('SET', 'channels:link:" LINK "%c', '%d') ",
                                                   'a' + i, c->link[i]));
    for (int i = 0; i < c->index.count; i++)
        script = text_append(
            script, text_temp("redis.call('ZADD', 'channels:index', %d, '%d') ", i + 1, c->index.id[i]));
    return script;
}

/* One line for each key, whose first character says what it is. */
static const char DUMP[] =
    "local out = {} "
    "local function add(...) out[#out + 1] = table.concat({...}, ' ') end "
    "for _, key in ipairs(redis.call('KEYS', '*')) do "
    "  local ttl = redis.call('PTTL', key) "
    "  local card, link = string.match(key, '^channels:card:(%d)$'), "
    "                     string.match(key, '^channels:link:https://max.ru/(%l)$') "
    "  if key == 'channels:loader' then add('l', ttl, redis.call('GET', key)) "
    "  elseif ttl ~= -1 then add('a TTL:', key) "
    "  elseif card and key ~= '" MODEL_FOREIGN "' then "
    "    local f = redis.call('HMGET', key, 'title', 'link', 'category', 'max_channel_id') "
    "    local n = 0 "
    "    for i = 1, 4 do if f[i] then n = n + 1 end end "
    "    if n ~= redis.call('HLEN', key) or f[4] ~= card then add('another field:', key) end "
    "    add('C', card, f[1], string.sub(f[2] or '-', -1), f[3] or '-') "
    "  elseif link then add('L', link, redis.call('GET', key)) "
    "  elseif key == 'channels:index' then add('I', unpack(redis.call('ZRANGE', key, 0, -1))) "
    "  elseif key == 'channels:index.next' then add('N', unpack(redis.call('ZRANGE', key, 0, -1))) "
    "  elseif key == '" MODEL_FOREIGN "' then "
    "  elseif key ~= 'channels:api_keys' then add('another key:', key) end "
    "end return table.concat(out, '\\n')";

static void read_order(struct model_order *o, const char *ids)
{
    for (; *ids != '\0'; ids++)
        if (*ids != ' ')
            o->id[o->count++] = *ids - '0';
}

static char field_of(char shown)
{
    return (char)(shown == '-' ? 0 : shown);
}

/* "C ID TITLE LINK CATEGORY", a character each. */
static bool read_card(struct model_catalogue *c, const char *line)
{
    if (strlen(line) != 9 || line[2] < '1' || line[2] > '9')
        return false;
    c->card[line[2] - '0'] = (struct model_card){line[4], field_of(line[6]), field_of(line[8])};
    return true;
}

/* "L LINK ID", a character each. */
static bool read_link(struct model_catalogue *c, const char *line)
{
    if (strlen(line) != 5 || line[4] < '1' || line[4] > '9')
        return false;
    c->link[slot(line[2])] = line[4] - '0';
    return true;
}

/* "l TTL VALUE". No lock of a load is without a TTL. */
static bool read_lock(struct model_state *out, const char *line, int64_t now_ms)
{
    char *end = NULL;
    int64_t ttl = strtoll(line + 2, &end, 10);
    (void)snprintf(out->holder, sizeof out->holder, "%s", end + 1);
    out->expires_ms = now_ms + ttl;
    return ttl >= 0 && ttl <= MODEL_LEASE_MS;
}

static bool read_line(struct model_state *out, const char *line, int64_t now_ms)
{
    switch (line[0]) {
    case 'C':
        return read_card(&out->catalogue, line);
    case 'L':
        return read_link(&out->catalogue, line);
    case 'l':
        return read_lock(out, line, now_ms);
    case 'I':
        read_order(&out->catalogue.index, line + 1);
        return true;
    case 'N':
        read_order(&out->next, line + 1);
        return true;
    default:
        return false;
    }
}

/* A reader that finds a channel in the list finds its card. */
static bool is_listed_without_card(const struct model_catalogue *c)
{
    for (int i = 0; i < c->index.count; i++)
        if (c->card[c->index.id[i]].title == 0)
            return true;
    return false;
}

const char *model_read(struct model_state *out, struct redis *from, int64_t now_ms)
{
    *out = (struct model_state){0};
    AUTOFREE char *dump = redis_text(from, "EVAL %s 0", DUMP);
    assert_non_null(dump);
    char *rest = NULL;
    for (char *line = strtok_r(dump, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        if (!read_line(out, line, now_ms))
            return text_temp("Redis holds '%s'", line);
    return is_listed_without_card(&out->catalogue) ? "the index lists a channel without a card" : NULL;
}
