/*
 * Runs a table of requests and expected responses: requests FILE [PATTERN], a shell pattern of names of
 * cases.
 *
 * A table has one line for each step; a line that begins with white space continues the one before, after a
 * space if that does not end with \n. An unknown word is an error. A failure is reported with file, line and
 * name of the case.
 *
 *   # ...                      a comment
 *   let NAME = TEXT            {NAME} stands for the text in all lines below
 *   server [channels=N] [without-redis] [SETTING=VALUE...]
 *                              a channeld with these settings, on a Redis with FIXTURE_KEY and N samples
 *                              (5). The cases below share both. Several such lines in a row: each case
 *                              runs with each of them
 *   case NAME                  the steps below share one connection
 *   each NAME: A | B | ...     the case is repeated for each value ("-": none); several lines multiply.
 *   each M ; N: A ; B | ...    the same for values that belong together
 *
 *   METHOD TARGET | FIELD | ... -> RESPONSE        a request; GET+HEAD sends both, whose fields must agree
 *   raw BYTES -> RESPONSE      these bytes, with \r, \n, \t, \\, \" and \xHH
 *   send BYTES                 the same without reading
 *   read [HEAD] -> RESPONSE    the next response
 *   end                        the server closes the connection
 *   connect                    another connection
 *   shape BYTES -> OUTCOME     these bytes, which may contain \x00, and a good request, the tail, sent whole
 * and byte by byte, each on a connection of its own; OUTCOME: see send_shape() admin STEP, await STEP     of
 * the admin listener; repeated until the response is as expected
 *
 *   redis ARGUMENT ...         a command; arguments in "..." with the escapes above, or in '...'
 *   stop-redis                 ends it until the next case
 *   mark                       remembers the metrics
 *   metric NAME OP VALUE       waits for it; OP is =, >= or <=; VALUE is N or mark+N
 *   log N REGEX                ends the server: so many lines of its log match
 *
 * A RESPONSE is a status, "close" if the connection ends with it, and any of these, separated by " | ":
 *
 *   Name: value                the field has this value
 *   Name ~ REGEX               it is there and matches the extended regular expression
 *   !Name                      it is absent
 *   .a.0 = JSON                the member of the (decoded) content: the same with ~ and !
 *   body = TEXT                the content: the same with ~ and !~
 *   save NAME = Name, .a.0 or body               {NAME} stands for it until the end of the case
 *
 * Further names: {key} and {wrong} are fields with a valid and an invalid key, {sha256:TEXT} is a digest,
 * {N*TEXT} a repetition, {card:N} and {summary:N} are samples, {card:JSON} and {summary:JSON} what is shown
 * of a card with these fields. What holds for every response is in check_common().
 */

#include <errno.h>
#include <libdeflate.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "support/fixture.h"

enum { VARIABLES_MAX = 64, CASES_MAX = 256, WORDS_MAX = 32, CONTENT_MAX = 1 << 20 };

struct step {
    int line;
    char *text;
};

struct variable {
    const char *name, *value;
    bool is_saved; /* as it is; others are expanded */
};

struct table_case {
    size_t server; /* index into the steps */
    size_t first, end;
    const char *name;
};

static const char *path;
static struct step *steps;
static size_t step_count;
static struct table_case cases[CASES_MAX];
static size_t case_count;
static struct variable variables[VARIABLES_MAX] = {{"key", "X-Api-Key: " FIXTURE_KEY, true},
                                                   {"wrong", "X-Api-Key: wrong", true}};
static size_t variable_count = 2;
static size_t let_count = 2; /* of them are of the file */

static struct fixture fixture;
static size_t running = SIZE_MAX; /* the step of the server that runs */
static struct http_conn conn = {.fd = -1};
static bool to_admin;
static const char *marked; /* metrics */
static char *ended_log;
static const struct step *current; /* NULL: the case has ended well */

/* ---- text ---- */

/* Until the end of the case; hides a name of the file. */
static void set_variable(const char *name, const char *value, bool is_saved)
{
    size_t i = let_count;
    while (i < variable_count && strcmp(variables[i].name, name) != 0)
        i++;
    assert_true(i < VARIABLES_MAX);
    variables[i] = (struct variable){text_temp("%s", name), text_temp("%s", value), is_saved};
    variable_count += i == variable_count;
}

static char *expand(const char *text);

static const char *value_of(const char *name)
{
    for (size_t i = variable_count; i-- > 0;)
        if (strcmp(variables[i].name, name) == 0)
            return variables[i].is_saved ? variables[i].value : expand(variables[i].value);
    fail_msg("unknown name {%s}", name);
    return NULL;
}

static const char *digest_of(const char *text)
{
    char digest[65];
    catalogue_digest(text, digest);
    return text_temp("%s", digest);
}

/* What stands for "{inner}", or NULL if that is no name. */
static const char *expand_name(const char *inner)
{
    inner = strchr(inner, '{') != NULL ? expand(inner) : inner;
    char *rest = NULL;
    unsigned long number = strtoul(inner, &rest, 10);
    if (rest != inner && *rest == '*' && rest[1] != '\0') {
        AUTOFREE char *text = text_fill(rest + 1, number * strlen(rest + 1));
        return text_temp("%s", text);
    }
    const char *colon = strchr(inner, ':');
    if (strncmp(inner, "sha256:", 7) == 0)
        return digest_of(colon + 1);
    if (strncmp(inner, "card:", 5) == 0 || strncmp(inner, "summary:", 8) == 0) {
        AUTOFREE char *card =
            colon[1] == '{' ? text_printf("%s", colon + 1) : catalogue_card(strtoul(colon + 1, NULL, 10));
        AUTOFREE char *shown = catalogue_shown(card, inner[0] == 's');
        return text_temp("%s", shown);
    }
    bool is_name = inner[0] != '\0' && strspn(inner, "abcdefghijklmnopqrstuvwxyz-") == strlen(inner);
    return is_name ? value_of(inner) : NULL;
}

/* The brace that closes the one at the beginning, or NULL. */
static const char *closing_brace(const char *at)
{
    for (int depth = 0; *at != '\0'; at++) {
        depth += (*at == '{') - (*at == '}');
        if (depth == 0)
            return at;
    }
    return NULL;
}

/* The text with all names replaced; borrowed, and may be changed. */
static char *expand(const char *text)
{
    AUTOFREE char *expanded = text_printf("%s", "");
    while (*text != '\0') {
        size_t length = strcspn(text, "{");
        const char *begin = text + length;
        const char *end = *begin == '{' ? closing_brace(begin) : NULL;
        const char *value = NULL;
        if (end != NULL)
            value = expand_name(text_temp("%.*s", (int)(end - begin) - 1, begin + 1));
        length += value == NULL && *begin == '{';
        expanded = text_append(expanded, text_temp("%.*s%s", (int)length, text, value != NULL ? value : ""));
        text = value != NULL ? end + 1 : text + length;
    }
    char *kept = NULL;
    memcpy(&kept, &(const char *){text_temp("%s", expanded)}, sizeof kept);
    return kept;
}

static bool matches(const char *text, const char *expression)
{
    regex_t regex;
    if (regcomp(&regex, expression, REG_EXTENDED | REG_NOSUB) != 0)
        fail_msg("invalid expression %s", expression);
    int result = regexec(&regex, text, 0, NULL, 0);
    regfree(&regex);
    return result == 0;
}

/* Replaces escapes in place; returns the length. */
static size_t unescape_bytes(char *text)
{
    static const char letters[] = "rnt\\\"";
    static const char bytes[] = "\r\n\t\\\"";
    char *to = text;
    for (const char *at = text; *at != '\0'; at++) {
        const char *letter = *at == '\\' && at[1] != '\0' ? strchr(letters, at[1]) : NULL;
        if (*at != '\\') {
            *to++ = *at;
        } else if (letter != NULL) {
            *to++ = bytes[letter - letters];
            at++;
        } else if (matches(at, "^.x[0-9a-fA-F]{2}")) {
            *to++ = (char)strtoul((const char[]){at[2], at[3], '\0'}, NULL, 16);
            at += 3;
        } else {
            fail_msg("unknown escape %.4s", at);
        }
    }
    *to = '\0';
    return (size_t)(to - text);
}

static char *unescape(char *text)
{
    size_t length = unescape_bytes(text);
    assert_int_equal(strlen(text), length);
    return text;
}

/* Cuts the text at the first separator; returns what is behind it, or NULL. */
static char *cut(char *text, const char *separator)
{
    char *at = strstr(text, separator);
    if (at == NULL)
        return NULL;
    *at = '\0';
    return at + strlen(separator);
}

/* ---- what holds for every response ---- */

/* The content without its coding, owned. */
static char *decode(const struct http_response *r)
{
    const char *coding = http_header(r, "Content-Encoding");
    size_t length = r->body_length;
    if (coding == NULL || length == 0)
        return text_printf("%s", r->body != NULL ? r->body : "");
    char *content = text_repeat('\0', CONTENT_MAX);
    if (strcmp(coding, "gzip") == 0) {
        struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
        assert_int_equal(libdeflate_gzip_decompress(d, r->body, length, content, CONTENT_MAX, &length), 0);
        libdeflate_free_decompressor(d);
    } else {
        assert_string_equal(coding, "zstd");
        length = ZSTD_decompress(content, CONTENT_MAX, r->body, length);
        assert_false(ZSTD_isError(length));
    }
    assert_true(r->body_length < length);
    return content;
}

static const char *field_of(const struct http_response *r, const char *name)
{
    const char *value = http_header(r, name);
    return value != NULL ? value : "";
}

/* A success has a strong entity tag. An error is an envelope, is never stored, and has an id. */
static void check_common(const struct http_response *r, const char *content)
{
    for (size_t i = 0; i < r->header_count; i++)
        if (http_header_count(r, r->headers[i].name) != 1)
            fail_msg("%s occurs twice", r->headers[i].name);
    assert_true(
        matches(field_of(r, "Date"), "^[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT$"));
    assert_string_equal(field_of(r, "X-Content-Type-Options"), "nosniff");
    bool is_empty = r->status == 204 || r->status == 304;
    assert_string_equal(field_of(r, "Content-Type"), is_empty ? "" : "application/json");
    if (r->status == 200 || r->status == 304) {
        assert_true(matches(field_of(r, "ETag"), "^\"[^\"]+\"$"));
        assert_true(matches(field_of(r, "Cache-Control"), "^(private, )?no-cache$"));
    } else if (r->status != 204) {
        assert_null(http_header(r, "ETag"));
        assert_string_equal(field_of(r, "Cache-Control"), "no-store");
        assert_non_null(http_header(r, "X-Request-Id"));
    }
    if (r->status >= 400 && r->body_length > 0)
        json_assert_error(content);
    else if (r->status == 200 && r->body_length > 0 && strncmp(content, "{\"openapi\"", 10) != 0)
        json_assert_at(content, "success", "true");
}

/* HEAD has the fields of GET, but for those that differ each time. */
static void check_head(const struct http_response *get, const struct http_response *head)
{
    assert_int_equal(head->status, get->status);
    assert_int_equal(head->header_count, get->header_count);
    for (size_t i = 0; i < get->header_count; i++)
        if (!matches(get->headers[i].name, "^(Date|X-Request-Id|RateLimit)$"))
            assert_string_equal(field_of(head, get->headers[i].name), get->headers[i].value);
}

/* ---- expectations ---- */

/* "Name", ".member" or "body" of a response, borrowed, or NULL. */
static const char *part_of(const struct http_response *r, const char *content, const char *name)
{
    if (strcmp(name, "body") == 0)
        return content;
    if (name[0] != '.')
        return http_header(r, name);
    AUTOFREE char *member = json_at(content, name + 1);
    return member != NULL ? text_temp("%s", member) : NULL;
}

static bool is_equal(const char *name, const char *actual, const char *expected)
{
    AUTOFREE char *json = name[0] == '.' ? json_at(expected, "") : text_printf("%s", expected);
    return actual != NULL && strcmp(actual, json) == 0;
}

/* What is wrong, borrowed; NULL: it is as expected. */
static const char *check_expectation(const struct http_response *r, const char *content, char *text)
{
    static const char *const operators[] = {" = ", ": ", " ~ ", " !~ "};
    const char *whole = text_temp("%s", text);
    size_t used = strcspn(text, " :");
    size_t op = 0;
    if (text[0] == '!')
        return part_of(r, content, text + 1) == NULL ? NULL : text_temp("%s: it is there", whole);
    while (op < TEST_COUNT(operators) && strncmp(text + used, operators[op], strlen(operators[op])) != 0)
        op++;
    if (op == TEST_COUNT(operators))
        fail_msg("unknown expectation: %s", whole);
    char *expected = text + used + strlen(operators[op]);
    text[used] = '\0';
    const char *actual = part_of(r, content, text);
    bool is_right =
        op < 2 ? is_equal(text, actual, expected) : actual != NULL && matches(actual, expected) == (op == 2);
    return is_right ? NULL
                    : text_temp("expected %s, but it is %s", whole, actual != NULL ? actual : "absent");
}

static const char *check_part(const struct http_response *r, const char *content, char *text)
{
    if (strncmp(text, "save ", 5) != 0)
        return check_expectation(r, content, text);
    const char *name = cut(text, " = ");
    const char *value = name != NULL ? part_of(r, content, name) : NULL;
    if (value == NULL)
        return text_temp("nothing to save: %s", text);
    set_variable(text + 5, value, true);
    return NULL;
}

static const char *check_response(const struct http_response *r, const char *content, char *expected)
{
    const char *problem = NULL;
    char *next = cut(expected, " | ");
    const char *connection = field_of(r, "Connection");
    const char *status = text_temp("%d%s", r->status, strcmp(connection, "close") == 0 ? " close" : "");
    if (strcmp(expected, status) != 0)
        return text_temp("expected %s, but it is %s: %.300s", expected, status, content);
    for (char *part = next; part != NULL && problem == NULL; part = next) {
        next = cut(part, " | ");
        problem = check_part(r, content, part);
    }
    return problem;
}

/* ---- exchanges ---- */

static void connect_again(void)
{
    http_close(&conn);
    conn = http_connect(to_admin ? fixture.server.admin_port : fixture.server.port);
}

static void expect_end(void)
{
    int error = http_read_eof(&conn);
    if (error != 0)
        fail_msg("the connection does not end: %s", strerror(-error));
    connect_again();
}

/* The server may refuse and close before it has read everything: its response counts. */
static void send_bytes(const char *bytes)
{
    (void)http_send_text(&conn, bytes);
}

static void read_response(bool to_head, struct http_response *r)
{
    int error = http_read(&conn, to_head, r);
    if (error != 0)
        fail_msg("no response: %s", strerror(-error));
    if (strcmp(field_of(r, "Connection"), "close") == 0)
        expect_end();
}

/* What is wrong, or NULL. */
static const char *judge(const struct http_response *r, char *expected)
{
    AUTOFREE char *content = decode(r);
    if (!to_admin)
        check_common(r, content);
    return check_response(r, content, expected);
}

static const char *read_and_judge(bool to_head, char *expected)
{
    AUTO(http_response_free) struct http_response response;
    read_response(to_head, &response);
    return judge(&response, expected);
}

/* A request in the form of the table: "GET /target | Field: value". */
static char *format_request(char *text)
{
    char *field = cut(text, " | ");
    char *request = text_printf("%s HTTP/1.1\r\nHost: api.example\r\n", text);
    while (field != NULL) {
        char *next = cut(field, " | ");
        if (field[0] != '\0')
            request = text_append(request, text_temp("%s\r\n", field));
        field = next;
    }
    return text_append(request, "\r\n");
}

/* The request is one of HEAD; GET comes first. */
static const char *exchange_both(char *text, char *expected)
{
    AUTO(http_response_free) struct http_response get;
    AUTO(http_response_free) struct http_response head;
    AUTOFREE char *to_head = format_request(text);
    AUTOFREE char *to_get = text_printf("GET%s", to_head + strlen("HEAD"));
    send_bytes(to_get);
    read_response(false, &get);
    send_bytes(to_head);
    read_response(true, &head);
    check_head(&get, &head);
    return judge(&get, expected);
}

/* What is wrong, or NULL. */
static const char *exchange(const char *step)
{
    AUTOFREE char *copy = text_printf("%s", step);
    char *request = copy;
    char *expected = cut(request, " -> ");
    if (expected == NULL)
        fail_msg("no \" -> \" and response");
    (void)unescape(request);
    if (strncmp(request, "GET+HEAD ", 9) == 0)
        return exchange_both(request + strlen("GET+"), expected);
    if (strncmp(request, "read", 4) == 0)
        return read_and_judge(strcmp(request, "read HEAD") == 0, expected);
    bool is_raw = strncmp(request, "raw ", 4) == 0;
    AUTOFREE char *bytes = is_raw ? text_printf("%s", request + 4) : format_request(request);
    send_bytes(bytes);
    return read_and_judge(strncmp(bytes, "HEAD ", 5) == 0, expected);
}

struct awaited {
    const char *step, *problem;
};

static bool is_as_expected(void *arg)
{
    struct awaited *a = arg;
    a->problem = exchange(a->step);
    return a->problem == NULL;
}

/* ---- shapes ---- */

#define TAIL "GET /api/channel/by-id/0/ HTTP/1.1\r\nHost: a\r\nX-Request-Id: tail\r\n" FIXTURE_AUTH "\r\n"

/* The server may refuse and close before it has read everything: its responses count. */
static void send_pieces(struct http_conn *to, const char *bytes, size_t length, size_t piece)
{
    for (size_t at = 0; at < length; at += piece)
        if (http_send(to, bytes + at, length - at < piece ? length - at : piece) != 0)
            return;
}

static const char *name_of_end(int error)
{
    if (error == -EPIPE)
        return "";
    if (error == -ECONNRESET)
        return ", reset";
    return error == -ETIMEDOUT ? ", silence" : ", garbage";
}

/*
 * Sends the shape and the tail in pieces, closes the sending side, and describes what comes until the end:
 * the status of each response, "tail" before those of the tail, "close" behind one that announces it: "400
 * close", "200, tail 200", "nothing". Another end than an orderly one is "reset", "silence" or "garbage".
 * Borrowed.
 */
static const char *send_shape(const char *bytes, size_t length, size_t piece)
{
    struct http_response r;
    const char *told = "";
    AUTO(http_close) struct http_conn to = http_connect(fixture.server.port);
    send_pieces(&to, bytes, length, piece);
    send_pieces(&to, TAIL, strlen(TAIL), piece);
    (void)http_finish(&to);
    int error = 0;
    while ((error = http_read(&to, false, &r)) == 0) {
        told = text_temp("%s, %s%d%s", told, strcmp(field_of(&r, "X-Request-Id"), "tail") == 0 ? "tail " : "",
                         r.status, strcmp(field_of(&r, "Connection"), "close") == 0 ? " close" : "");
        http_response_free(&r);
    }
    told = text_temp("%s%s", told, name_of_end(error));
    return told[0] != '\0' ? told + 2 : "nothing";
}

static void run_shape(char *bytes)
{
    const char *expected = cut(bytes, " -> ");
    if (expected == NULL)
        fail_msg("no \" -> \" and outcome");
    size_t length = unescape_bytes(bytes);
    for (size_t piece = 1; piece > 0; piece = piece == 1 ? SIZE_MAX : 0) {
        const char *told = send_shape(bytes, length, piece);
        if (strcmp(told, expected) != 0)
            fail_msg("expected %s, but it is %s%s", expected, told, piece == 1 ? ", byte by byte" : "");
    }
}

/* ---- steps ---- */

/* The arguments of a line, in place. */
static size_t split(char *text, const char **words)
{
    size_t count = 0;
    while (*(text += strspn(text, " ")) != '\0') {
        assert_true(count < WORDS_MAX);
        char quote = *text == '"' || *text == '\'' ? *text++ : ' ';
        char *end = text;
        while (*end != '\0' && *end != quote)
            end += *end == '\\' && end[1] != '\0' && quote == '"' ? 2 : 1;
        char *next = *end != '\0' ? end + 1 : end;
        *end = '\0';
        words[count++] = quote == '"' ? unescape(text) : text;
        text = next;
    }
    return count;
}

/* True if it is the first word, which is then cut off. */
static bool is_word(char **text, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*text, word, length) != 0 || ((*text)[length] != ' ' && (*text)[length] != '\0'))
        return false;
    *text += length + ((*text)[length] == ' ');
    return true;
}

static void run_redis(char *text)
{
    const char *words[WORDS_MAX];
    size_t count = split(text, words);
    redis_do_argv(&fixture.redis, count, words, NULL);
}

static void run_metric(char *name)
{
    char *value = strrchr(name, ' ');
    char *op = value != NULL ? memrchr(name, ' ', (size_t)(value - name)) : NULL;
    if (op == NULL || !matches(op, "^ (=|>=|<=)") || !matches(value, "^ (mark\\+)?[0-9.e+]+$"))
        fail_msg("not NAME OP VALUE");
    *op++ = '\0';
    bool is_relative = strncmp(value, " mark+", 6) == 0;
    double expected = strtod(value + (is_relative ? 6 : 1), NULL);
    if (is_relative)
        expected += server_metric_in(marked, name);
    if (op[0] == '<')
        server_await_metric_below(&fixture.server, name, expected);
    else
        server_await_metric(&fixture.server, name, expected);
    if (op[0] == '=')
        fixture_expect_metric(&fixture, name, expected);
}

static void run_log(const char *text)
{
    char *expression = NULL;
    size_t count = strtoul(text, &expression, 10);
    size_t matching = 0;
    if (expression == text || !is_word(&expression, ""))
        fail_msg("not N REGEX");
    if (running != SIZE_MAX) {
        free(ended_log);
        ended_log = fixture_stop_server(&fixture);
        server_kill(&fixture.server);
        running = SIZE_MAX;
    }
    AUTOFREE char *lines = text_printf("%s", ended_log);
    for (char *line = lines, *next = NULL; line != NULL; line = next) {
        next = cut(line, "\n");
        matching += matches(line, expression);
    }
    if (matching != count)
        fail_msg("%zu lines of the log match: %s", matching, ended_log);
}

static void run_mark(void)
{
    AUTOFREE char *metrics = server_metrics(&fixture.server);
    marked = text_temp("%s", metrics);
}

static void run_exchange(const char *step, bool awaits)
{
    struct awaited a = {.step = step};
    if (awaits ? !wait_until(is_as_expected, &a, WAIT_DEADLINE_MS) : !is_as_expected(&a))
        fail_msg("%s", a.problem);
}

static void direct_to(bool admin)
{
    if (to_admin == admin)
        return;
    to_admin = admin;
    connect_again();
}

static void run_step(char *text)
{
    direct_to(is_word(&text, "admin"));
    if (is_word(&text, "await"))
        run_exchange(text, true);
    else if (matches(text, "^([A-Z]+|GET[+]HEAD|raw|read) "))
        run_exchange(text, false);
    else if (is_word(&text, "redis"))
        run_redis(text);
    else if (is_word(&text, "metric"))
        run_metric(text);
    else if (is_word(&text, "log"))
        run_log(text);
    else if (is_word(&text, "mark"))
        run_mark();
    else if (is_word(&text, "send"))
        send_bytes(unescape(text));
    else if (is_word(&text, "shape"))
        run_shape(text);
    else if (is_word(&text, "end"))
        expect_end();
    else if (is_word(&text, "connect"))
        connect_again();
    else if (is_word(&text, "stop-redis"))
        redis_kill(&fixture.redis);
    else
        fail_msg("unknown word");
}

/* ---- cases ---- */

static const char *rest_of(const char *text)
{
    const char *space = strchr(text, ' ');
    return space != NULL ? space + 1 : "";
}

static void start_server(size_t step)
{
    static const char *words[WORDS_MAX + 1];
    memset(words, 0, sizeof words);
    size_t count = split(expand(rest_of(steps[step].text)), words);
    size_t channels = 5;
    bool without_redis = false;
    size_t settings = 0;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(words[i], "channels=", 9) == 0)
            channels = strtoul(words[i] + 9, NULL, 10);
        else if (strcmp(words[i], "without-redis") == 0)
            without_redis = true;
        else if (strncmp(words[i], "CHANNELD_", 9) == 0)
            words[settings++] = words[i];
        else
            fail_msg("unknown word %s", words[i]);
    }
    words[settings] = NULL;
    redis_restart(&fixture.redis);
    catalogue_issue_key(&fixture.redis, FIXTURE_KEY);
    catalogue_put_samples(&fixture.redis, channels);
    const char *url = without_redis ? "redis://127.0.0.1:1" : fixture.redis.url;
    server_start(&fixture.server, &(struct server_spec){
                                      url, words, without_redis ? SERVER_WAIT_LISTENING : SERVER_WAIT_READY});
    running = step;
}

static void stop_server(void)
{
    if (running != SIZE_MAX)
        server_stop(&fixture.server);
    running = SIZE_MAX;
}

static void run_steps(const struct table_case *c)
{
    size_t kept = variable_count;
    bool has_stopped_redis = false;
    current = &steps[c->server];
    if (running != c->server) {
        stop_server();
        start_server(c->server);
    }
    to_admin = false;
    connect_again();
    for (size_t i = c->first; i < c->end; i++) {
        current = &steps[i];
        has_stopped_redis |= strcmp(current->text, "stop-redis") == 0;
        if (strncmp(current->text, "each ", 5) != 0)
            run_step(expand(current->text));
    }
    http_close(&conn);
    if (has_stopped_redis)
        stop_server();
    variable_count = kept;
}

static void set_each(char *names, char *values)
{
    while (names != NULL && values != NULL) {
        char *next_name = cut(names, " ; ");
        char *next_value = next_name != NULL ? cut(values, " ; ") : NULL;
        set_variable(names, strcmp(values, "-") == 0 ? "" : values, false);
        names = next_name;
        values = next_value;
    }
    if (names != NULL)
        fail_msg("no value for {%s}", names);
}

/* Repeats the case for the values of its lines from `at` on. */
static void run_each(const struct table_case *c, size_t at)
{
    while (at < c->end && strncmp(steps[at].text, "each ", 5) != 0)
        at++;
    if (at == c->end) {
        run_steps(c);
        return;
    }
    current = &steps[at];
    AUTOFREE char *names = text_printf("%s", steps[at].text + 5);
    char *values = cut(names, ": ");
    size_t kept = variable_count;
    while (values != NULL) {
        char *next = cut(values, " | ");
        AUTOFREE char *own_names = text_printf("%s", names);
        set_each(own_names, values);
        run_each(c, at + 1);
        values = next;
    }
    variable_count = kept;
}

static void run_case(void **state)
{
    const struct table_case *c = *state;
    run_each(c, c->first);
    current = NULL;
}

/* Where a case has failed; the next one gets a new server. */
static int end_case(void **state)
{
    const struct table_case *c = *state;
    if (current == NULL)
        return 0;
    print_error("%s:%d: %s: %s\n", path, current->line, c->name, current->text);
    for (size_t i = let_count; i < variable_count; i++)
        print_error("  {%s} is %.200s\n", variables[i].name, variables[i].value);
    server_kill(&fixture.server);
    running = SIZE_MAX;
    variable_count = let_count;
    return 0;
}

/* ---- the file ---- */

static void refuse(const struct step *step, const char *problem)
{
    print_error("%s:%d: %s: %s\n", path, step->line, problem, step->text);
    exit(1);
}

static void add_line(int number, const char *line)
{
    if (line[0] == '#' || line[0] == '\0')
        return;
    if (line[0] == ' ' && step_count > 0) {
        char **text = &steps[step_count - 1].text;
        size_t length = strlen(*text);
        *text = text_append(*text, strcmp(*text + length - 2, "\\n") == 0 ? "" : " ");
        *text = text_append(*text, line + strspn(line, " "));
        return;
    }
    steps = realloc(steps, (step_count + 1) * sizeof *steps);
    if (steps == NULL)
        abort();
    steps[step_count++] = (struct step){number, text_printf("%s", line)};
}

static void read_file(void)
{
    AUTOFREE char *text = text_read_file(path);
    char *rest = text;
    for (int number = 1; rest != NULL; number++) {
        char *next = cut(rest, "\n");
        add_line(number, rest);
        rest = next;
    }
}

/* The case that begins at a step, once for each of the servers. Returns where it ends. */
static size_t add_cases(size_t at, size_t first_server, size_t servers)
{
    size_t end = at + 1;
    while (end < step_count && !matches(steps[end].text, "^(case|server|let)( |$)"))
        end++;
    if (servers == 0)
        refuse(&steps[at], "no server");
    for (size_t i = first_server; i < first_server + servers; i++) {
        if (case_count == CASES_MAX)
            abort();
        struct table_case *c = &cases[case_count++];
        const char *settings = servers > 1 ? rest_of(steps[i].text) : "";
        *c = (struct table_case){i, at + 1, end, NULL};
        c->name = text_temp("%s%s%s", rest_of(steps[at].text), settings[0] != '\0' ? ", " : "", settings);
    }
    return end;
}

static void let(const struct step *step)
{
    AUTOFREE char *name = text_printf("%s", rest_of(step->text));
    const char *value = cut(name, " = ");
    if (value == NULL)
        refuse(step, "not NAME = TEXT");
    set_variable(name, value, false);
    let_count = variable_count;
}

static void find_cases(void)
{
    size_t first_server = 0;
    size_t servers = 0;
    for (size_t i = 0; i < step_count;) {
        if (strncmp(steps[i].text, "case ", 5) == 0) {
            i = add_cases(i, first_server, servers);
            continue;
        }
        bool is_server = matches(steps[i].text, "^server( |$)");
        if (is_server && (servers == 0 || i != first_server + servers)) {
            first_server = i;
            servers = 0;
        }
        servers += is_server;
        if (!is_server && strncmp(steps[i].text, "let ", 4) == 0)
            let(&steps[i]);
        else if (!is_server)
            refuse(&steps[i], "unknown word outside a case");
        i++;
    }
}

/* Servers in the order of the file, so that each starts once: the cases of one after those of the other. */
static int compare_servers(const void *a, const void *b)
{
    const struct table_case *left = a;
    const struct table_case *right = b;
    if (left->server != right->server)
        return left->server < right->server ? -1 : 1;
    return left->first < right->first ? -1 : 1;
}

static int set_up(void **state)
{
    (void)state;
    redis_prepare(&fixture.redis, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stop_server();
    redis_stop(&fixture.redis);
    free(ended_log);
    for (size_t i = 0; i < step_count; i++)
        free(steps[i].text);
    free(steps);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_error("requests FILE [PATTERN]\n");
        return 1;
    }
    path = argv[1];
    read_file();
    find_cases();
    qsort(cases, case_count, sizeof *cases, compare_servers);
    for (size_t i = 0; i < case_count; i++)
        test_add(&(struct CMUnitTest){cases[i].name, run_case, NULL, end_case, &cases[i]}, false);
    test_set_group(set_up, tear_down);
    return test_run(argc - 1, argv + 1);
}
