/* Keeping secrets; see secret.h. */
#include "base/secret.h"

#include <sys/prctl.h>

bool secret_equal(struct span a, struct span b)
{
    if (a.len != b.len)
        return false;
    uint64_t difference = 0;
    size_t i = 0;
    for (; i + sizeof difference <= a.len; i += sizeof difference)
        difference |= span_word(a.data + i) ^ span_word(b.data + i);
    for (; i < a.len; i++)
        difference |= (uint64_t)(unsigned char)(a.data[i] ^ b.data[i]);
    return difference == 0;
}

static void set_dumpable(int dumpable)
{
#ifdef __SANITIZE_ADDRESS__
    (void)dumpable;
#else
    (void)prctl(PR_SET_DUMPABLE, dumpable, 0, 0, 0); /* refuses only values that are neither 0 nor 1 */
#endif
}

void secret_forbid_dumps(void)
{
    set_dumpable(0);
}

void secret_allow_dumps(void)
{
    set_dumpable(1);
}
