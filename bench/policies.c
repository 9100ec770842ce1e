/* See policies.h. */
#include "policies.h"
#include "common.h"

#include <stdlib.h>

static struct object *object_at(struct simulation *s, uint32_t at)
{
    return &s->object[s->trace->object[at]];
}

static void insert(struct simulation *s, struct object *o)
{
    o->cached = true;
    s->cached++;
}

static void evict(struct simulation *s, struct object *o)
{
    o->cached = false;
    s->cached--;
}

/* --- SIEVE ---------------------------------------------------------------------------------------------- */

/* The new object is added before another is evicted, as in channeld, and so may be the victim itself. */
static bool access_sieve(struct simulation *s, uint32_t at)
{
    struct object *o = object_at(s, at);
    if (o->cached) {
        sieve_hit(&o->node);
        return true;
    }
    sieve_add(&s->sieve, &o->node);
    insert(s, o);
    if (s->cached > s->capacity) {
        struct sieve_node *victim = sieve_victim(&s->sieve);
        sieve_remove(&s->sieve, victim);
        evict(s, LIST_ENTRY(victim, struct object, node));
    }
    return false;
}

const struct policy policy_sieve = {"SIEVE", access_sieve};

/* --- LRU and FIFO --------------------------------------------------------------------------------------- */

static void queue_insert(struct simulation *s, struct object *o)
{
    if (s->cached == s->capacity) {
        struct object *oldest = LIST_ENTRY(s->queue.next, struct object, node.link);
        list_remove(&oldest->node.link);
        evict(s, oldest);
    }
    list_append(&s->queue, &o->node.link);
    insert(s, o);
}

static bool access_fifo(struct simulation *s, uint32_t at)
{
    struct object *o = object_at(s, at);
    if (o->cached)
        return true;
    queue_insert(s, o);
    return false;
}

static bool access_lru(struct simulation *s, uint32_t at)
{
    struct object *o = object_at(s, at);
    if (!o->cached) {
        queue_insert(s, o);
        return false;
    }
    list_remove(&o->node.link);
    list_append(&s->queue, &o->node.link);
    return true;
}

const struct policy policy_lru = {"LRU", access_lru};
const struct policy policy_fifo = {"FIFO", access_fifo};

/* --- The most popular ----------------------------------------------------------------------------------- */

static bool access_popular(struct simulation *s, uint32_t at)
{
    struct object *o = object_at(s, at);
    if (o->cached)
        return true;
    if (s->trace->rank[s->trace->object[at]] < s->capacity)
        insert(s, o);
    return false;
}

const struct policy policy_popular = {"popular", access_popular};

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

/* Replaces the root, which has the farthest next use, with `o`. */
static void heap_replace_top(struct simulation *s, struct object *o)
{
    uint32_t at = 0;
    for (uint32_t child = 1; child < s->cached; child = 2 * at + 1) {
        if (child + 1 < s->cached && s->heap[child + 1]->next_use > s->heap[child]->next_use)
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
    if (s->cached < s->capacity) {
        heap_place(s, o, s->cached);
        insert(s, o);
        heap_rise(s, o);
    } else if (o->next_use < s->heap[0]->next_use) {
        evict(s, s->heap[0]);
        insert(s, o);
        heap_replace_top(s, o);
    }
}

static bool access_optimum(struct simulation *s, uint32_t at)
{
    struct object *o = object_at(s, at);
    o->next_use = s->trace->next_use[at];
    if (o->cached) {
        heap_rise(s, o); /* its next use was the nearest and is farther now */
        return true;
    }
    admit(s, o);
    return false;
}

const struct policy policy_optimum = {"optimum", access_optimum};

/* -------------------------------------------------------------------------------------------------------- */

void simulation_init(struct simulation *s, const struct trace *trace, uint32_t capacity)
{
    *s = (struct simulation){.trace = trace, .capacity = capacity};
    s->object = calloc(trace->options.objects, sizeof *s->object);
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
