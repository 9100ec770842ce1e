/* Values, names and histories; see catalogue.h. */
#include "simulation/catalogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char PREFIX[] = "{sim}:";

int64_t catalogue_expires[INFOS];

void catalogue_set(struct catalogue *c, int object, int64_t value, uint64_t at_ns)
{
    struct history *h = &c->history[object];
    c->value[object] = value;
    h->entry[h->count % HISTORY].at_ns = at_ns;
    h->entry[h->count++ % HISTORY].value = value;
}

const char *catalogue_name(int number)
{
    static char name[32];
    if (number < OBJECT_LINK)
        (void)snprintf(name, sizeof name, "%scard:%d", PREFIX, number - OBJECT_CARD + 1);
    else if (number < OBJECT_INDEX)
        (void)snprintf(name, sizeof name, "%slink:l%d", PREFIX, number - OBJECT_LINK);
    else
        (void)snprintf(name, sizeof name, "%s%s", PREFIX,
                       number == OBJECT_INDEX    ? "index"
                       : number == NAME_API_KEYS ? "api_keys"
                                                 : "api_key_info");
    return name;
}

/* Half of the cards that change come first. */
int catalogue_members(const struct catalogue *c, int64_t index, int ids[MEMBERS_MAX])
{
    int count = 0;
    if (value_is_broken(index))
        return 0;
    for (int id = 1; id <= CARDS; id++) {
        if ((index & INT64_C(1) << id) != 0)
            ids[count++] = id;
        for (int i = 1; id == CARDS / 2 && i <= c->fixed && (index & 1) != 0; i++)
            ids[count++] = CARDS + i;
    }
    return count;
}

/* Keys of others begin with a byte that no other has, and have their numbers behind it. */
void catalogue_digest(int key, unsigned char out[DIGEST])
{
    memset(out, key < OTHER_KEYS ? 0x61 + key : 0, DIGEST);
    if (key < OTHER_KEYS)
        return;
    out[0] = 0xf0;
    for (int i = 1; i <= 4; i++)
        out[i] = (unsigned char)((key - OTHER_KEYS) >> (32 - 8 * i));
}

int catalogue_key(const char *hex, size_t len)
{
    char digits[9] = "";
    if (len != 2 * (size_t)DIGEST)
        return KEYS;
    if (hex[0] != 'f')
        return hex[0] == '6' && hex[1] >= '1' && hex[1] < '1' + KEYS ? hex[1] - '1' : KEYS;
    memcpy(digits, hex + 2, 8);
    return OTHER_KEYS + (int)strtol(digits, NULL, 16);
}

static bool begins_with(const char *name, size_t len, const char *what)
{
    return len >= strlen(what) && memcmp(name, what, strlen(what)) == 0;
}

static int number_in(const char *digits, size_t len, int limit)
{
    char text[8] = "";
    if (len == 0 || len >= sizeof text)
        return -1;
    memcpy(text, digits, len);
    long n = strtol(text, NULL, 10);
    return n >= 0 && n < limit ? (int)n : -1;
}

int catalogue_number(const char *name, size_t len)
{
    if (!begins_with(name, len, PREFIX))
        return -1;
    name += strlen(PREFIX);
    len -= strlen(PREFIX);
    if (begins_with(name, len, "card:")) {
        int id = number_in(name + 5, len - 5, CARDS + 1);
        return id <= 0 ? -1 : OBJECT_CARD + id - 1;
    }
    if (begins_with(name, len, "link:l")) {
        int link = number_in(name + 6, len - 6, LINKS);
        return link < 0 ? -1 : OBJECT_LINK + link;
    }
    if (len == 5 && begins_with(name, len, "index"))
        return OBJECT_INDEX;
    if (len == 8 && begins_with(name, len, "api_keys"))
        return NAME_API_KEYS;
    return len == 12 && begins_with(name, len, "api_key_info") ? NAME_API_KEY_INFO : -1;
}

int catalogue_fixed(const struct catalogue *c, const char *name, size_t len)
{
    size_t prefix = strlen(PREFIX);
    size_t head = prefix + strlen("card:");
    if (!begins_with(name, len, PREFIX) || !begins_with(name + prefix, len - prefix, "card:"))
        return 0;
    int id = number_in(name + head, len - head, CARDS + c->fixed + 1);
    return id > CARDS ? id : 0;
}

struct walk walk_begin(const struct catalogue *c, int object, uint64_t since_ns, uint64_t until_ns)
{
    const struct history *h = &c->history[object];
    return (struct walk){h, h->count, since_ns, until_ns, false};
}

/* From the last to the one that was there at the beginning. */
bool walk_next(struct walk *w, int64_t *value)
{
    const struct history *h = w->history;
    while (w->next > 0) {
        if (h->count - w->next == HISTORY) {
            w->forgotten = true;
            return false;
        }
        size_t at = --w->next % HISTORY;
        if (h->entry[at].at_ns > w->until_ns)
            continue;
        if (h->entry[at].at_ns <= w->since_ns)
            w->next = 0;
        *value = h->entry[at].value;
        return true;
    }
    return false;
}

bool catalogue_at(const struct catalogue *c, int object, uint64_t at_ns, int64_t *value)
{
    struct walk w = walk_begin(c, object, at_ns, at_ns);
    return walk_next(&w, value);
}
