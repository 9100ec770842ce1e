/* nginx as a child process; see nginx.h. */

#include "hostile/nginx.h"

#include <stdlib.h>
#include <string.h>

#include "support/net.h"
#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

/* X-Request-Id is echoed as channeld does, so that an answer can be told from another. */
static const char configuration[] = "daemon off;\n"
                                    "master_process off;\n"
                                    "user root;\n"
                                    "pid nginx.pid;\n"
                                    "error_log stderr;\n"
                                    "worker_rlimit_nofile 20000;\n"
                                    "events { worker_connections 16000; }\n"
                                    "http {\n"
                                    "  access_log off;\n"
                                    "  client_body_temp_path body;\n"
                                    "  proxy_temp_path proxy;\n"
                                    "  fastcgi_temp_path fastcgi;\n"
                                    "  uwsgi_temp_path uwsgi;\n"
                                    "  scgi_temp_path scgi;\n"
                                    "  server {\n"
                                    "    listen 127.0.0.1:%d backlog=4096;\n"
                                    "    %s\n"
                                    "    location / {\n"
                                    "      add_header X-Request-Id $http_x_request_id always;\n"
                                    "      return 200 \"{}\";\n"
                                    "    }\n"
                                    "  }\n"
                                    "}\n";

static bool nginx_is_listening(void *arg)
{
    struct nginx *nginx = arg;
    return !process_is_running(&nginx->process) || net_is_listening(nginx->port);
}

void nginx_start(struct nginx *nginx, const char *settings)
{
    memset(nginx, 0, sizeof *nginx);
    tempdir_init(&nginx->dir);
    nginx->port = net_reserve_port();
    char *path = text_printf("%s/nginx.conf", nginx->dir.path);
    char *text = text_printf(configuration, nginx->port, settings);
    const char *argv[] = {"nginx", "-e", "stderr", "-p", nginx->dir.path, "-c", path, NULL};
    struct process_spec spec = {.name = "nginx", .dir = nginx->dir.path, .argv = argv};
    assert_true(text_write_file(path, text));
    process_start(&nginx->process, &spec);
    free(text);
    free(path);
    bool listens = wait_until(nginx_is_listening, nginx, WAIT_DEADLINE_MS);
    if (listens && process_is_running(&nginx->process))
        return;
    char *errors = process_stderr(&nginx->process);
    print_error("%s", errors);
    free(errors);
    nginx_stop(nginx);
    fail_msg("nginx does not start");
}

void nginx_stop(struct nginx *nginx)
{
    process_kill(&nginx->process);
    tempdir_fini(&nginx->dir);
}
