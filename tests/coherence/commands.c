/*
 * The commands that writers send: the four shapes of docs/schema.md. A card carries its version, which is the
 * number of the change in the card's history, in almost every field.
 */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "coherence/writer.h"

enum { TEXT_SIZE = 64, FIELDS_MAX = 16, ARGS_MAX = 2 + 2 * FIELDS_MAX };

/* A command that is being put together. */
struct command {
    int argc;
    const char *argv[ARGS_MAX];
    int texts;
    char text[2 + FIELDS_MAX][TEXT_SIZE];
};

static void command_add(struct command *command, const char *argument)
{
    command->argv[command->argc++] = argument;
}

__attribute__((format(printf, 2, 3))) static void command_print(struct command *command, const char *format,
                                                                ...)
{
    va_list args;
    va_start(args, format);
    char *text = command->text[command->texts++];
    (void)vsnprintf(text, TEXT_SIZE, format, args);
    va_end(args);
    command_add(command, text);
}

static void command_begin(struct command *command, const char *name, int channel)
{
    command->argc = command->texts = 0;
    command_add(command, name);
    command_print(command, "channels:card:%" PRId64, world_id(channel));
}

static void command_text(struct command *command, const char *field, int64_t version)
{
    command_add(command, field);
    command_print(command, "v:%" PRId64, version);
}

static void command_number(struct command *command, const char *field, int64_t version)
{
    command_add(command, field);
    command_print(command, "%" PRId64, version);
}

void writer_put_link(struct writer *writer, int link, int channel)
{
    struct command command = {.argc = 0};
    command_add(&command, channel >= 0 ? "SET" : "DEL");
    command_print(&command, "channels:link:https://max.ru/l%d", link);
    if (channel >= 0)
        command_print(&command, "%" PRId64, world_id(channel));
    batch_command(&writer->batch, command.argc, command.argv);
    (void)batch_effect(&writer->batch, &writer->world->link[link], channel >= 0 ? channel : LINK_FREE);
    writer->world->link_owner[link] = channel;
}

void writer_put_member(struct writer *writer, int channel, int score)
{
    struct command command = {.argc = 0};
    command_add(&command, score >= 0 ? "ZADD" : "ZREM");
    command_add(&command, "channels:index");
    if (score >= 0)
        command_print(&command, "%d", score);
    command_print(&command, "%" PRId64, world_id(channel));
    batch_command(&writer->batch, command.argc, command.argv);
    (void)batch_effect(&writer->batch, &writer->world->member[channel], score >= 0 ? score : MEMBER_ABSENT);
    writer->world->channel[channel].score = score;
}

void writer_put_key(struct writer *writer, int key, bool valid)
{
    const char *argv[] = {valid ? "SADD" : "SREM", "channels:api_keys", writer->world->key_digest[key]};
    batch_command(&writer->batch, 3, argv);
    (void)batch_effect(&writer->batch, &writer->world->key[key], valid ? KEY_VALID : KEY_REVOKED);
    writer->world->key_valid[key] = valid;
}

static void command_first_half(struct command *command, const struct world *world, int channel,
                               int64_t version)
{
    int link = world->channel[channel].link;
    command_add(command, "max_channel_id");
    command_print(command, "%" PRId64, world_id(channel));
    command_text(command, "title", version);
    command_text(command, "description", version);
    command_text(command, "avatar", version);
    if (link >= 0) {
        command_add(command, "link");
        command_print(command, "https://max.ru/l%d", link);
    }
    command_text(command, "category", version);
}

static void command_second_half(struct command *command, int64_t version)
{
    int second = (int)(version % 86400);
    command_number(command, "followers_cnt_today", version);
    command_add(command, "followers_history");
    command_print(command, "{\"2026-11-20\":%" PRId64 "}", version);
    command_number(command, "is_a_plus_flag", version % 2);
    command_number(command, "views_24h", version);
    command_number(command, "views_48h", version);
    command_number(command, "er_24h", version);
    command_number(command, "er_48h", version);
    command_add(command, "updated_at");
    command_print(command, "2026-11-20T%02d:%02d:%02d", second / 3600, second / 60 % 60, second % 60);
}

static int64_t writer_issue_card(struct writer *writer, int channel)
{
    int link = writer->world->channel[channel].link;
    return batch_effect(&writer->batch, &writer->world->card[channel], link >= 0 ? link : CARD_WITHOUT_LINK);
}

void writer_put_card(struct writer *writer, int channel)
{
    struct command command;
    int64_t version = writer_issue_card(writer, channel);
    command_begin(&command, "HSET", channel);
    command_first_half(&command, writer->world, channel, version);
    command_second_half(&command, version);
    batch_command(&writer->batch, command.argc, command.argv);
}

void writer_tear_card(struct writer *writer, int channel)
{
    struct command command;
    (void)batch_run(&writer->batch);
    if (writer->batch.redis == NULL)
        return;
    batch_open(&writer->batch, false, false);
    int64_t version = writer_issue_card(writer, channel);
    writer->batch.effects = 0;
    command_begin(&command, "HSET", channel);
    command_first_half(&command, writer->world, channel, version);
    batch_command(&writer->batch, command.argc, command.argv);
    batch_close(&writer->batch);
    if (!batch_run(&writer->batch))
        return;
    batch_open(&writer->batch, false, false);
    command_begin(&command, "HSET", channel);
    command_second_half(&command, version);
    batch_command(&writer->batch, command.argc, command.argv);
    batch_adopt(&writer->batch, &writer->world->card[channel], version);
    batch_close(&writer->batch);
}

void writer_cut_card(struct writer *writer, int channel, bool whole)
{
    struct command command;
    command_begin(&command, whole ? "DEL" : "HDEL", channel);
    if (!whole)
        command_add(&command, "link");
    batch_command(&writer->batch, command.argc, command.argv);
    if (whole)
        (void)batch_effect(&writer->batch, &writer->world->card[channel], CARD_ABSENT);
}
