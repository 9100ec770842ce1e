/*
 * Runs channelctl as a table says: commands with their input, output and exit code. Each file NAME.cases of
 * the folder channelctl is a test, integration.channelctl-NAME, with a Redis of its own.
 *
 *     # A comment. The commands that stand before the first case are run before each of them.
 *     > SADD channels:api_keys 0123
 *
 *     = load names the line that it refuses
 *     $1 channelctl load -
 *     < {"max_channel_id":1}
 *     < {"max_channel_id":2,"title":3}
 *     ! -:2: title: 3 is not a string or null
 *       1 channel: 1 changed, 1 refused in *
 *     > ZRANGE channels:index 0 -1 => 1
 *
 *     = NAME       begins a case, in an empty Redis and an empty folder
 *     > COMMAND    of Redis. Blanks separate words, '...' is one word. A reply is compared where => is given;
 *                  an error, which is "(error) TEXT", has to be given
 *     $ COMMAND    a line of bash that has to exit with 0; $2 COMMAND: with 2. A pipe fails with its parts
 *     < LINE       of its input and of the file "in"; without any they are those of the command before
 *     ! LINE       of its errors
 *       LINE       of its output, after two blanks
 *
 * Output is compared whole. In a line * stands for any text; the line ... stands for any lines. Commands have
 * these words in addition:
 *
 *     redis WORD...         redis-cli with the Redis of the test
 *     digest TEXT           prints the SHA-256 of the text
 *     channels ID[:SLUG]... prints lines that load reads: channels without and with a link
 *     each CODE COMMAND     runs the command with the words of each line of its input, and prints those lines
 *                           for which the exit code is another
 *
 * Arguments: FILE [PATTERN of the names of cases].
 */

#include "support/ctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STEPS_MAX = 1024, WORDS_MAX = 64 };

struct step {
    int line;
    char kind; /* '=', '$' or '>' */
    int code;
    char *text;
    char *in, *out, *err; /* owned; NULL: no such line */
};

static const char *file;
static struct step steps[STEPS_MAX];
static size_t step_count, setup_count, case_count;

/* ---- The table ---- */

__attribute__((noreturn)) static void refuse(int line, const char *why)
{
    (void)fprintf(stderr, "%s:%d: %s\n", file, line, why);
    exit(EXIT_FAILURE);
}

static void add_line(char **text, const char *line)
{
    *text = text_append(*text != NULL ? *text : text_printf("%s", ""), text_temp("%s\n", line));
}

static void add_step(int line, char kind, char *text)
{
    int code = kind == '$' ? (int)strtol(text, &text, 10) : 0;
    if (text[0] != ' ' || text[1] == '\0' || step_count == STEPS_MAX)
        refuse(line, "no text, or the table is full");
    struct step *s = &steps[step_count++];
    *s = (struct step){.line = line, .kind = kind, .code = code, .text = text + 1};
    char *reply = kind == '>' ? strstr(s->text, " =>") : NULL;
    if (reply != NULL) {
        *reply = '\0';
        add_line(&s->out, reply + (reply[3] == ' ' ? 4 : 3));
    }
}

static void add_to_step(int line, const char *text)
{
    struct step *s = step_count > 0 ? &steps[step_count - 1] : NULL;
    char kind = text[0];
    if (s == NULL || s->kind != '$' || (text[1] != ' ' && text[1] != '\0'))
        refuse(line, "it belongs to no command");
    if (kind == '<' && (s->out != NULL || s->err != NULL))
        refuse(line, "input comes before output");
    add_line(kind == '<' ? &s->in : kind == '!' ? &s->err : &s->out, text + 1 + (text[1] == ' '));
}

static void parse_line(int line, char *text)
{
    if (text[0] == '\0' || text[0] == '#')
        return;
    if (strchr("=$>", text[0]) != NULL)
        add_step(line, text[0], text + 1);
    else if (strchr("<! ", text[0]) != NULL)
        add_to_step(line, text);
    else
        refuse(line, "it begins with none of = > $ < ! # and blanks");
}

/* ---- Comparison ---- */

static bool matches(const char *pattern, const char *text, bool begins_line);

static bool matches_after_lines(const char *pattern, const char *text)
{
    const char *end = NULL;
    for (; !matches(pattern, text, true); text = end + 1)
        if ((end = strchr(text, '\n')) == NULL)
            return false;
    return true;
}

static bool matches_after_text(const char *pattern, const char *text)
{
    for (; !matches(pattern, text, false); text++)
        if (*text == '\n' || *text == '\0')
            return false;
    return true;
}

static bool matches(const char *pattern, const char *text, bool begins_line)
{
    if (begins_line && strncmp(pattern, "...\n", 4) == 0)
        return matches_after_lines(pattern + 4, text);
    if (*pattern == '*')
        return matches_after_text(pattern + 1, text);
    return *pattern == *text && (*pattern == '\0' || matches(pattern + 1, text + 1, *text == '\n'));
}

static void expect(const struct step *s, const char *what, const char *expected, const char *got)
{
    expected = expected != NULL ? expected : "";
    if (!matches(expected, got, true))
        fail_msg("%s:%d: %s\n--- %s expected:\n%s--- but got:\n%s---", file, s->line, s->text, what, expected,
                 got);
}

/* ---- Cases ---- */

static void run_redis(const struct step *s)
{
    const char *words[WORDS_MAX];
    size_t count = 0;
    AUTOFREE char *text = text_printf("%s", s->text);
    for (char *at = text + strspn(text, " "); *at != '\0'; at += strspn(at, " ")) {
        const char *end = *at == '\'' ? "'" : " ";
        at += *at == '\'';
        assert_true(count < WORDS_MAX);
        words[count++] = at;
        at += strcspn(at, end);
        if (*at != '\0')
            *at++ = '\0';
    }
    AUTOFREE char *reply = redis_reply(&redis, count, words);
    bool fails = strncmp(reply, "(error) ", 8) == 0;
    if (s->out != NULL || fails)
        expect(s, "reply", s->out, text_temp("%s\n", reply));
}

static void run_shell(const struct step *s, const char *folder)
{
    static const char words[] =
        "export LC_ALL=C\n"
        "set -o pipefail\n"
        "redis() { redis-cli -u \"$CHANNELD_REDIS_URL\" \"$@\"; }\n"
        "digest() { printf %s \"$1\" | sha256sum | cut -c -64; }\n"
        "channels() { local c; for c; do printf '{\"max_channel_id\":%s' ${c%%:*}; [[ $c != *:* ]] || "
        "printf ',\"link\":\"https://max.ru/%s\"' ${c#*:}; echo '}'; done; }\n"
        "each() { local words; while read -r words; do eval \"$2 $words\"; [ $? = $1 ] || "
        "echo \"another exit code: $words\"; done; }\n";
    const char *tool = process_require_env("CHANNELCTL_BIN");
    AUTOFREE char *script = text_printf("cd %s\n%s%s", folder, words, s->text);
    AUTOFREE char *url = text_printf("CHANNELD_REDIS_URL=%s", redis.url);
    AUTOFREE char *path =
        text_printf("PATH=%.*s:%s", (int)(strrchr(tool, '/') - tool), tool, process_require_env("PATH"));
    AUTOFREE char *in = text_printf("%s/in", folder);
    const char *const argv[] = {"bash", "-c", script, NULL};
    const char *const env[] = {url, path, NULL};
    const struct process_spec spec = {
        .name = text_temp("%d", s->line), .dir = folder, .argv = argv, .env = env, .stdin_path = in};
    struct process process;
    if (s->in != NULL)
        assert_true(text_write_file(in, s->in));
    int code = process_run(&process, &spec);
    AUTOFREE char *out = process_stdout(&process);
    AUTOFREE char *err = process_stderr(&process);
    expect(s, "error output", s->err, err);
    expect(s, "output", s->out, out);
    if (code != s->code)
        fail_msg("%s:%d: %s\n--- exit code %d expected, but got %d", file, s->line, s->text, s->code, code);
}

static void run_steps(const struct step *from, const struct step *end, const char *folder)
{
    for (const struct step *s = from; s < end && s->kind != '='; s++)
        if (s->kind == '>')
            run_redis(s);
        else
            run_shell(s, folder);
}

static void run_case(void **state)
{
    const struct step *begin = *state;
    AUTOFREE char *folder = text_printf("%s/%d", redis.dir.path, begin->line);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_true(text_write_file(text_temp("%s/in", folder), ""));
    (void)ctl_empty(NULL);
    run_steps(steps, steps + setup_count, folder);
    run_steps(begin + 1, steps + step_count, folder);
}

static void add_cases(void)
{
    for (size_t i = 0; i < step_count; i++) {
        if (steps[i].kind != '=')
            continue;
        if (i + 1 == step_count || steps[i + 1].kind == '=')
            refuse(steps[i].line, "the case is empty");
        setup_count = case_count++ == 0 ? i : setup_count;
        test_add(&(struct CMUnitTest){steps[i].text, run_case, NULL, NULL, &steps[i]}, false);
    }
    if (case_count == 0)
        refuse(0, "no cases");
}

int main(int argc, char **argv)
{
    int number = 1;
    file = argc > 1 ? argv[1] : "";
    char *text = text_read_file(file);
    for (char *line = text, *end = NULL; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        parse_line(number++, line);
    }
    add_cases();
    test_set_group(ctl_setup, ctl_teardown);
    int code = test_run(argc - 1, argv + 1);
    for (size_t i = 0; i < step_count; i++) {
        free(steps[i].in);
        free(steps[i].out);
        free(steps[i].err);
    }
    free(text);
    return code;
}
