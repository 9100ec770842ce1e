/* The parts of attacks; see attacks.h. */

#include "hostile/attacks.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "support/http.h"
#include "support/test.h"
#include "support/text.h"

enum { MEGABYTE = 1000000 };

char *attack_megabyte_of(const char *text)
{
    size_t length = strlen(text);
    size_t count = MEGABYTE / length;
    char *all = text_repeat(' ', count * length);
    for (size_t i = 0; i < count; i++)
        memcpy(all + i * length, text, length);
    return all;
}

void attack_come_and_go(int port, int visitors)
{
    const struct linger now = {.l_onoff = 1};
    for (int i = 0; i < visitors; i++) {
        struct http_conn conn;
        assert_int_equal(http_open(&conn, port), 0);
        if (i % 2 == 0)
            (void)setsockopt(conn.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        http_close(&conn);
    }
}

size_t attack_take_descriptors(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_max;
}
