/* One seed, and the streams derived from it; see random.h. */
#include "simulation/random.h"

static uint64_t state[STREAMS];

void random_begin(uint64_t seed)
{
    for (int i = 0; i < STREAMS; i++)
        state[i] = random_next(&seed);
}

uint64_t random_bits(enum stream stream)
{
    return random_next(&state[stream]);
}
