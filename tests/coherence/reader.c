/* The loop of a reader; see reader.h. */

#include "coherence/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "coherence/clock.h"

enum { EVENTS = 64, POLL_MS = 20, TEXT_SIZE = 4096, REOPEN_AFTER = 5000, LAST_ANSWER_S = 10, LAG_MS = 100 };

static void reader_ask(struct reader *reader, struct lane *lane);

static void reader_fail(struct reader *reader, const char *what, int error)
{
    report_violation(reader->checker.report, VIOLATION_CLIENT, "%s: %s", what, strerror(-error));
}

static void reader_open(struct reader *reader, struct lane *lane)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = lane}};
    int error = lane_open(lane, reader->port);
    if (error == 0 && epoll_ctl(reader->poller, EPOLL_CTL_ADD, lane->fd, &event) != 0)
        abort();
    if (error != 0)
        reader_fail(reader, "connect", error);
}

static void reader_reopen(struct reader *reader, struct lane *lane)
{
    lane_close(lane);
    lane->remembers = false;
    reader_open(reader, lane);
}

static void reader_ask(struct reader *reader, struct lane *lane)
{
    char text[TEXT_SIZE];
    int count = 0;
    size_t length = reader_compose(reader, lane, text, sizeof text, &count);
    int64_t now = clock_now();
    for (int i = 0; i < count; i++)
        lane->question[i].sent = now;
    if (!lane_send(lane, text, length, count))
        reader_fail(reader, "send", -errno);
    if (reader->options->reads != 0)
        reader->due += (int64_t)count * CLOCK_S * reader->options->readers / reader->options->reads;
}

/* Keeps one answer in a few about a channel, for a conditional request later. */
static void reader_remember(struct reader *reader, struct lane *lane, const struct question *question,
                            const struct lane_reply *reply, const struct sighting *seen)
{
    if (question->conditional || reply->etag[0] == '\0' ||
        (lane->remembers && chance_below(&reader->chance, 8) != 0))
        return;
    for (int i = lane->answered; i < lane->asked; i++) {
        if (lane->question[i].conditional)
            return; /* what that one was asked with must stay */
    }
    lane->remembers = true;
    lane->memory = *question;
    lane->memory.known = *seen;
    memcpy(lane->etag, reply->etag, sizeof lane->etag);
}

/* Judges all answers that are complete; a negative errno when they make no sense. */
static int reader_take_answers(struct reader *reader, struct lane *lane, int64_t now)
{
    struct lane_reply reply;
    struct sighting seen;
    while (lane->answered < lane->asked) {
        int taken = lane_take(lane, &reply);
        if (taken <= 0)
            return taken;
        const struct question *question = &lane->question[lane->answered - 1];
        reply.reply.received = now;
        latency_add(&reader->latency, now - question->sent);
        if (check_reply(&reader->checker, question, &reply.reply, &seen) && reply.reply.status == 200)
            reader_remember(reader, lane, question, &reply, &seen);
    }
    return 0;
}

static void reader_on_readable(struct reader *reader, struct lane *lane)
{
    int got = lane_fill(lane);
    int64_t now = clock_now();
    if (got > 0)
        got = reader_take_answers(reader, lane, now);
    if (got < 0) {
        reader_fail(reader, "connection", got);
        reader_reopen(reader, lane);
    } else if (lane->answered == lane->asked && lane->since_opened > REOPEN_AFTER) {
        reader_reopen(reader, lane);
    }
}

/* Puts the idle lanes to work, unless the pace forbids; returns how many are at work. */
static int reader_ask_all(struct reader *reader, bool finished)
{
    int busy = 0;
    int64_t now = clock_now();
    bool paced = reader->options->reads != 0;
    if (reader->due < now - (int64_t)LAG_MS * CLOCK_MS)
        reader->due = now;
    for (int i = 0; i < reader->options->connections; i++) {
        struct lane *lane = &reader->lanes[(reader->first + i) % reader->options->connections];
        bool idle = lane->answered == lane->asked;
        if (idle && !finished && lane->fd < 0)
            reader_open(reader, lane);
        if (idle && !finished && lane->fd >= 0 && (!paced || reader->due <= now))
            reader_ask(reader, lane);
        busy += lane->answered != lane->asked;
    }
    reader->first = (reader->first + 1) % reader->options->connections; /* at a pace, the last would starve */
    return busy;
}

static void reader_poll(struct reader *reader)
{
    struct epoll_event events[EVENTS];
    int64_t ahead = reader->options->reads != 0 ? reader->due - clock_now() : 0;
    clock_sleep(ahead < (int64_t)POLL_MS * CLOCK_MS ? ahead : (int64_t)POLL_MS * CLOCK_MS);
    int count = epoll_wait(reader->poller, events, EVENTS, ahead > 0 ? 0 : POLL_MS);
    for (int i = 0; i < count; i++)
        reader_on_readable(reader, events[i].data.ptr);
}

static void *reader_main(void *arg)
{
    struct reader *reader = arg;
    int64_t deadline = 0;
    reader->due = clock_now();
    for (;;) {
        bool finished = atomic_load(reader->finished);
        int busy = reader_ask_all(reader, finished);
        if (finished && deadline == 0)
            deadline = clock_now() + (int64_t)LAST_ANSWER_S * CLOCK_S;
        if (finished && (busy == 0 || clock_now() > deadline)) {
            if (busy > 0)
                reader_fail(reader, "last answers", -ETIMEDOUT);
            return NULL;
        }
        reader_poll(reader);
    }
}

void reader_start(struct reader *reader, const struct options *options, const struct checker *checker,
                  int number, int port, atomic_bool *finished)
{
    *reader = (struct reader){.options = options, .checker = *checker, .port = port, .finished = finished};
    reader->checker.tally = &reader->tally;
    reader->chance = options->seed * 1000 + 500 + (uint64_t)number;
    reader->poller = epoll_create1(EPOLL_CLOEXEC);
    reader->lanes = calloc((size_t)options->connections, sizeof *reader->lanes);
    if (reader->poller < 0 || reader->lanes == NULL)
        abort();
    for (int i = 0; i < options->connections; i++)
        reader->lanes[i].fd = -1;
    if (pthread_create(&reader->thread, NULL, reader_main, reader) != 0)
        abort();
}

void reader_join(struct reader *reader)
{
    (void)pthread_join(reader->thread, NULL);
    for (int i = 0; i < reader->options->connections; i++)
        lane_close(&reader->lanes[i]);
    free(reader->lanes);
    (void)close(reader->poller);
}
