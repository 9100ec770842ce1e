/* Adding up and writing the metrics; the table is in metrics.h. */
#include "base/metrics.h"

void metrics_accumulate(struct metrics *to, const struct metrics *from)
{
#define ADD(name, type, help) metric_add(&to->name, atomic_load_explicit(&from->name, memory_order_relaxed));
    METRICS(ADD)
#undef ADD
}

static void write_one(struct buf *out, const char *name, const char *type, const char *help, uint64_t value)
{
    buf_printf(out, "# HELP channeld_%s %s\n# TYPE channeld_%s %s\nchanneld_%s %llu\n", name, help, name,
               type, name, (unsigned long long)value);
}

void metrics_write(struct buf *out, const struct metrics *m)
{
#define WRITE(name, type, help) \
    write_one(out, #name, #type, help, atomic_load_explicit(&m->name, memory_order_relaxed));
    METRICS(WRITE)
#undef WRITE
}
