/* What readers ask. */

#include <inttypes.h>
#include <stdio.h>

#include "coherence/clock.h"
#include "coherence/reader.h"

enum { GHOSTS = 1000 };

static int reader_steady_key(struct reader *reader)
{
    return chance_below(&reader->chance, WORLD_KEYS_STEADY);
}

static int reader_changing_key(struct reader *reader)
{
    return WORLD_KEYS_STEADY + chance_below(&reader->chance, WORLD_KEYS - WORLD_KEYS_STEADY);
}

static int reader_any_channel(struct reader *reader)
{
    const struct world *world = reader->checker.world;
    if (chance_below(&reader->chance, 3) == 0)
        return world_hot_channel(world, chance_below(&reader->chance, WORLD_HOT),
                                 chance_below(&reader->chance, world->writers));
    return chance_below(&reader->chance, world->channels);
}

/* Something that does not exist: a channel, a link, or a key. */
static void reader_ask_ghost(struct reader *reader, struct question *question)
{
    question->kind = REQUEST_GHOST;
    switch (chance_below(&reader->chance, 3)) {
    case 0:
        question->object = -1;
        break;
    case 1:
        question->object = -1;
        question->target = TARGET_LINK;
        break;
    default:
        question->key = -1;
        break;
    }
}

static void reader_choose(struct reader *reader, const struct lane *lane, struct question *question)
{
    *question = (struct question){.kind = REQUEST_CARD, .target = TARGET_CARD};
    question->object = reader_any_channel(reader);
    question->key = reader_steady_key(reader);
    if (chance_below(&reader->chance, 1000) < reader->options->page_permille) {
        question->kind = REQUEST_PAGE;
        question->target = TARGET_PAGE;
        question->object = 1 + chance_below(&reader->chance, WORLD_PAGES);
        return;
    }
    int dice = chance_below(&reader->chance, 100);
    if (dice < 3) {
        reader_ask_ghost(reader, question);
    } else if (dice < 15) {
        question->kind = REQUEST_KEY;
        question->object =
            world_hot_channel(reader->checker.world, chance_below(&reader->chance, WORLD_HOT), 0);
        question->key = reader_changing_key(reader);
    } else if (dice < 25 && lane->remembers) {
        *question = lane->memory;
        question->kind = REQUEST_AGAIN;
        question->conditional = true;
    } else if (dice < 45) {
        question->kind = REQUEST_LINK;
        question->target = TARGET_LINK;
        question->object = chance_below(&reader->chance, reader->checker.world->channels);
    }
}

static int reader_write_target(struct reader *reader, const struct question *question, char *text,
                               size_t size)
{
    const char *host = chance_below(&reader->chance, 4) == 0 ? "web.max.ru" : "max.ru";
    if (question->target == TARGET_PAGE)
        return snprintf(text, size, "GET /api/channels/?page=%d", question->object);
    if (question->target == TARGET_LINK && question->object >= 0)
        return snprintf(text, size, "GET /api/channel/by-link/?link=https://%s/l%d", host, question->object);
    if (question->target == TARGET_LINK)
        return snprintf(text, size, "GET /api/channel/by-link/?link=https://%s/nobody%d", host,
                        chance_below(&reader->chance, GHOSTS));
    int64_t id =
        question->object >= 0 ? world_id(question->object) : 1 + chance_below(&reader->chance, GHOSTS);
    return snprintf(text, size, "GET /api/channel/by-id/%" PRId64 "/", id);
}

static int reader_write_request(struct reader *reader, const struct lane *lane,
                                const struct question *question, char *text, size_t size)
{
    const struct world *world = reader->checker.world;
    const char *key = question->key >= 0 ? world->key_text[question->key] : "a-key-that-was-never-valid";
    int used = reader_write_target(reader, question, text, size);
    used += snprintf(text + used, size - (size_t)used, " HTTP/1.1\r\nHost: test\r\nX-Api-Key: %s\r\n", key);
    if (question->conditional)
        used += snprintf(text + used, size - (size_t)used, "If-None-Match: %s\r\n", lane->etag);
    used += snprintf(text + used, size - (size_t)used, "\r\n");
    return used;
}

size_t reader_compose(struct reader *reader, struct lane *lane, char *text, size_t size, int *count)
{
    size_t used = 0;
    *count = chance_below(&reader->chance, 2) == 0 ? 1 : 1 + chance_below(&reader->chance, LANE_BATCH_MAX);
    for (int i = 0; i < *count; i++) {
        reader_choose(reader, lane, &lane->question[i]);
        used += (size_t)reader_write_request(reader, lane, &lane->question[i], text + used, size - used);
    }
    return used;
}
