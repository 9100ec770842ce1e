/* channeld: reads its settings, serves until told to stop. Exit codes: 0 fine, 1 could not run or (--probe)
 * is not ready, 2 bad settings. */
#include "app/config.h"
#include "app/loop.h"
#include "app/probe.h"
#include "app/server.h"
#include "base/process.h"
#include "version.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { EXIT_FINE = 0, EXIT_CANNOT_RUN = 1, EXIT_BAD_SETTINGS = 2 };

static int complain(struct buf *error, int code)
{
    const char *text = buf_c_str(error);
    bool told = text != NULL && *text != '\0'; /* every other failure leaves a message */
    (void)fprintf(stderr, "channeld: %s\n", told ? text : "out of memory");
    return code;
}

static int print(struct buf *text)
{
    bool written =
        buf_error(text) == 0 && fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0;
    if (!written)
        (void)fprintf(stderr, "channeld: %s\n", buf_error(text) != 0 ? "out of memory" : strerror(errno));
    buf_fini(text);
    return written ? EXIT_FINE : EXIT_CANNOT_RUN;
}

/* In the log of a server, and on standard error with --check. */
static void warn_of_unknown_variables(bool to_log)
{
    size_t at = 0;
    for (;;) {
        struct span name = config_next_unknown(&at);
        if (name.data == NULL)
            return;
        struct buf text = BUF_INIT;
        config_write_unknown(name, &text);
        const char *said = buf_c_str(&text);
        if (said != NULL && to_log)
            log_text(LOG_WARN, "unknown setting in the environment", "reason", said);
        else if (said != NULL)
            (void)fprintf(stderr, "channeld: warning: %s\n", said);
        buf_fini(&text);
    }
}

static int serve(const struct config *config, struct buf *error)
{
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);  /* until the server handles it */
    (void)signal(SIGXFSZ, SIG_IGN); /* a log file at its limit is an error of write(), as a full disk is */
    if (config->core_dumps)
        process_allow_dumps();
    int err = loop_prepare();
    if (err == 0)
        err = log_start(STDOUT_FILENO, config->log_level);
    if (err == 0) {
        warn_of_unknown_variables(true);
        err = server_run(config, error);
    }
    log_stop();
    if (err == 0)
        return EXIT_FINE;
    if (error->len == 0)
        buf_append_str(error, strerror(-err));
    return complain(error, EXIT_CANNOT_RUN);
}

static int probe(const struct config *config, struct buf *error)
{
    return probe_ready(&config->admin_listen, error) == 0 ? EXIT_FINE : complain(error, EXIT_CANNOT_RUN);
}

static int run(struct config *config, int argc, char **argv, struct buf *error)
{
    struct buf text = BUF_INIT;
    switch (config_read(config, argc, argv, error)) {
    case CONFIG_RUN:
        return serve(config, error);
    case CONFIG_CHECK:
        warn_of_unknown_variables(false);
        config_write_values(config, &text);
        return print(&text);
    case CONFIG_PROBE:
        return probe(config, error);
    case CONFIG_HELP:
        config_write_help(&text);
        return print(&text);
    case CONFIG_VERSION:
        buf_append_str(&text, "channeld " CHANNELD_VERSION "\n");
        return print(&text);
    case -ENOMEM:
        return complain(error, EXIT_CANNOT_RUN);
    default:
        return complain(error, EXIT_BAD_SETTINGS);
    }
}

int main(int argc, char **argv)
{
    struct config config = {0};
    struct buf error = BUF_INIT;
    process_forbid_dumps();
    if (process_open_standard_descriptors() != 0)
        return EXIT_CANNOT_RUN;
    int code = run(&config, argc, argv, &error);
    buf_fini(&error);
    config_fini(&config);
    return code;
}
