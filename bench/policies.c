/* See policies.h. */
#include "policies.h"
#include "net.h"

#include <stdlib.h>

static struct object *asked_for(struct simulation *s, uint32_t at)
{
    return &s->object[s->stream->object[at]];
}

static void hold(struct simulation *s, struct object *o)
{
    o->held = true;
    s->held++;
}

static void forget(struct simulation *s, struct object *o)
{
    o->held = false;
    s->held--;
}

/* --- SIEVE ---------------------------------------------------------------------------------------------- */

/* The newcomer is added before room is made, as cache.c does it, and so may be the victim itself. */
static bool ask_sieve(struct simulation *s, uint32_t at)
{
    struct object *o = asked_for(s, at);
    if (o->held) {
        sieve_hit(&o->node);
        return true;
    }
    sieve_add(&s->sieve, &o->node);
    hold(s, o);
    if (s->held > s->capacity) {
        struct sieve_node *victim = sieve_victim(&s->sieve);
        sieve_remove(&s->sieve, victim);
        forget(s, LIST_ENTRY(victim, struct object, node));
    }
    return false;
}

const struct policy policy_sieve = {"SIEVE", ask_sieve};

/* --- LRU and FIFO --------------------------------------------------------------------------------------- */

static void queue_up(struct simulation *s, struct object *o)
{
    if (s->held == s->capacity) {
        struct object *oldest = LIST_ENTRY(s->queue.next, struct object, node.link);
        list_remove(&oldest->node.link);
        forget(s, oldest);
    }
    list_append(&s->queue, &o->node.link);
    hold(s, o);
}

static bool ask_fifo(struct simulation *s, uint32_t at)
{
    struct object *o = asked_for(s, at);
    if (o->held)
        return true;
    queue_up(s, o);
    return false;
}

static bool ask_lru(struct simulation *s, uint32_t at)
{
    struct object *o = asked_for(s, at);
    if (!o->held) {
        queue_up(s, o);
        return false;
    }
    list_remove(&o->node.link);
    list_append(&s->queue, &o->node.link);
    return true;
}

const struct policy policy_lru = {"LRU", ask_lru};
const struct policy policy_fifo = {"FIFO", ask_fifo};

/* --- The most popular ----------------------------------------------------------------------------------- */

static bool ask_popular(struct simulation *s, uint32_t at)
{
    struct object *o = asked_for(s, at);
    if (o->held)
        return true;
    if (s->stream->rank[s->stream->object[at]] < s->capacity)
        hold(s, o);
    return false;
}

const struct policy policy_popular = {"popular", ask_popular};

/* --- The optimum ---------------------------------------------------------------------------------------- */

static void heap_place(struct simulation *s, struct object *o, uint32_t at)
{
    s->heap[at] = o;
    o->heap_at = at;
}

static void heap_rise(struct simulation *s, struct object *o)
{
    uint32_t at = o->heap_at;
    while (at > 0 && s->heap[(at - 1) / 2]->next_use < o->next_use) {
        heap_place(s, s->heap[(at - 1) / 2], at);
        at = (at - 1) / 2;
    }
    heap_place(s, o, at);
}

/* Puts `o` where the farthest was. */
static void heap_replace_top(struct simulation *s, struct object *o)
{
    uint32_t at = 0;
    for (uint32_t child = 1; child < s->held; child = 2 * at + 1) {
        if (child + 1 < s->held && s->heap[child + 1]->next_use > s->heap[child]->next_use)
            child++;
        if (s->heap[child]->next_use <= o->next_use)
            break;
        heap_place(s, s->heap[child], at);
        at = child;
    }
    heap_place(s, o, at);
}

static void admit(struct simulation *s, struct object *o)
{
    if (s->held < s->capacity) {
        heap_place(s, o, s->held);
        hold(s, o);
        heap_rise(s, o);
    } else if (o->next_use < s->heap[0]->next_use) {
        forget(s, s->heap[0]);
        hold(s, o);
        heap_replace_top(s, o);
    }
}

static bool ask_optimum(struct simulation *s, uint32_t at)
{
    struct object *o = asked_for(s, at);
    o->next_use = s->stream->next_use[at];
    if (o->held) {
        heap_rise(s, o); /* it was the nearest and is farther now */
        return true;
    }
    admit(s, o);
    return false;
}

const struct policy policy_optimum = {"optimum", ask_optimum};

/* -------------------------------------------------------------------------------------------------------- */

void simulation_init(struct simulation *s, const struct stream *stream, uint32_t capacity)
{
    *s = (struct simulation){.stream = stream, .capacity = capacity};
    s->object = calloc(stream->options.objects, sizeof *s->object);
    s->heap = calloc(capacity, sizeof *s->heap);
    if (s->object == NULL || s->heap == NULL)
        die("out of memory");
    sieve_init(&s->sieve);
    list_init(&s->queue);
}

void simulation_fini(struct simulation *s)
{
    free(s->object);
    free(s->heap);
}
