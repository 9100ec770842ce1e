/* Ways in which a network drops packets; see bad_network.h. */

#include "faults/bad_network.h"

struct stage *bad_network_begin(void **state)
{
    struct stage *stage = stage_new(&(struct stage_plan){.network = true});
    *state = stage;
    (void)load_start(stage);
    return stage;
}

void bad_network_drop_in(struct stage *stage)
{
    netns_drop_in(&stage->netns);
}

void bad_network_drop_out(struct stage *stage)
{
    netns_drop_out(&stage->netns);
}

void bad_network_drop_all(struct stage *stage)
{
    bad_network_drop_in(stage);
    bad_network_drop_out(stage);
}

void bad_network_heal(struct stage *stage)
{
    netns_restore(&stage->netns);
}
