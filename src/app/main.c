/* channeld. Exit codes: 0 success, 1 could not run or (--probe) not ready, 2 wrong settings. */
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

enum { EXIT_OK = 0, EXIT_CANNOT_RUN = 1, EXIT_BAD_SETTINGS = 2 };

/* Prints why it failed, and returns the exit code. */
static int main_fail(struct buf *error, int err)
{
    if (error->len == 0)
        buf_append_str(error, err == -ENOMEM ? "out of memory" : strerror(-err));
    (void)fprintf(stderr, "channeld: %s\n", buf_message(error));
    return err == -EINVAL ? EXIT_BAD_SETTINGS : EXIT_CANNOT_RUN;
}

static int main_print(struct buf *text)
{
    bool written =
        buf_error(text) == 0 && fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0;
    if (!written)
        (void)fprintf(stderr, "channeld: %s\n", buf_error(text) != 0 ? "out of memory" : strerror(errno));
    buf_fini(text);
    return written ? EXIT_OK : EXIT_CANNOT_RUN;
}

/* Warnings go to the log of a server, or to standard error with --check. */
static void main_warn_of_unknown_variables(bool to_log)
{
    struct buf text = BUF_INIT;
    size_t at = 0;
    while (settings_next_unknown(&config_usage, SPAN("CHANNELD_"), &at, &text))
        if (to_log)
            log_text(LOG_WARN, "unknown setting in the environment", "reason", buf_message(&text));
        else
            (void)fprintf(stderr, "channeld: warning: %s\n", buf_message(&text));
    buf_fini(&text);
}

static int main_serve(const struct config *config, struct buf *error)
{
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* write() fails at the size limit of a log file */
    if (config->values.core_dumps != 0)
        process_set_dumpable(true);
    int err = log_start(STDOUT_FILENO, config_log_level(&config->values));
    if (err == 0) {
        main_warn_of_unknown_variables(true);
        err = server_run(config, false, error);
    }
    log_stop();
    return err == 0 ? EXIT_OK : main_fail(error, err);
}

static int main_check(const struct config *config, struct buf *error)
{
    struct buf text = BUF_INIT;
    int err = server_run(config, true, error);
    if (err != 0)
        return main_fail(error, err);
    main_warn_of_unknown_variables(false);
    settings_write_values(&config_usage, &config->values, &text);
    return main_print(&text);
}

/* --help and --version win over wrong variables and words. */
static int main_run(struct config *config, int argc, char **argv, struct buf *error)
{
    struct buf text = BUF_INIT;
    const char *const *given = config->args.flag;
    int err = config_read(config, argc, argv, error);
    if (given[CONFIG_HELP] != NULL) {
        usage_write_help(&config_usage, USAGE_ALL, &text);
        return main_print(&text);
    }
    if (given[CONFIG_VERSION] != NULL) {
        buf_append_str(&text, "channeld " CHANNELD_VERSION "\n");
        return main_print(&text);
    }
    if (err != 0)
        return main_fail(error, err);
    if (given[CONFIG_CHECK] != NULL)
        return main_check(config, error);
    if (given[CONFIG_PROBE] != NULL)
        return probe_ready(&config->admin_listen, error) ? EXIT_OK : main_fail(error, -EIO);
    return main_serve(config, error);
}

static void main_end(int number)
{
    _exit(128 + number);
}

/* Until the server handles signals. For the first process of a container the kernel ignores a signal that has
 * no handler. */
static void main_handle_signals(void)
{
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGTERM, main_end);
    (void)signal(SIGINT, main_end);
}

int main(int argc, char **argv)
{
    struct config config = {0};
    struct buf error = BUF_INIT;
    main_handle_signals();
    process_set_dumpable(false);
    if (process_open_standard_descriptors() != 0)
        return EXIT_CANNOT_RUN;
    int err = loop_prepare();
    int code = err == 0 ? main_run(&config, argc, argv, &error) : main_fail(&error, err);
    buf_fini(&error);
    settings_fini(&config_usage, &config.values);
    return code;
}
