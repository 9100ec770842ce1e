/*
 * Sample channels, and channelctl sample. The n-th channel is the same on every machine. The texts contain
 * characters that careless JSON writers handle incorrectly: quotes, backslashes, tabs.
 */
#include "base/hash.h"
#include "base/text.h"
#include "ctl/command.h"
#include "ctl/terminal.h"

enum { SAMPLE_MAX = 100 * 1000 * 1000, DAY_S = 86400, LAST_DAY = 20, DAYS = 10, AVATAR_LEN = 226 };

/* The texts of a channel, as they stand in JSON. */
struct language {
    const char *title[4], *sentence[4];
};

static const struct language LANGUAGES[] = {
    {{"Daily Markets 📈", "Northern Kitchen", "\\\"Quiet\\\" Science", "Urban Gardens"},
     {"Photos, maps and the \\\"why\\\" behind them.",
      "Ads: C:\\\\Channels\\\\price_list.pdf \\\\ ask the bot.", "Rules:\\t1) be kind;\\t2) no reposts.",
      "Everything about prices, queues & traffic <today>."}},
    {{"Городские новости", "Тихие истории 🎬", "Домашние рецепты", "Честные финансы"},
     {"Коротко о том, что важно сегодня.", "«Кавычки», тире — и ни одной ошибки.",
      "Пишите в бот: ответим каждому.", "Разбираем законы простым языком."}},
    {{"Hyvä keittiö", "Pohjoinen luonto 🏒", "Öinen kirjasto", "Käytännön talous"},
     {"Päivän tärkeimmät uutiset yhdessä paikassa.", "Lähetä vinkki: vinkit@example.org",
      "Tervetuloa mukaan!", "Kaikki \\\"parhaat\\\" reitit kartalla."}},
    {{"أخبار المدينة", "مطبخ العائلة 🔥", "عالم الرياضة", "رحلات الصحراء"},
     {"كل ما يهمك في مكان واحد.", "نشر يومي بلا إعلانات.", "صور وخرائط وقصص قصيرة.", "أسعار السوق كل صباح."}},
    {{"每日科学", "城市故事 👩‍🍳", "北方花园", "快乐电影"},
     {"每天一条，不多不少。", "我们替你读完长长的报告。", "“引号”与换行都会出现。",
      "价格、天气和排队情况。"}},
};

static const char *const CATEGORIES[] = {"news",  "health", "crypto",    "travel",   "humor",  "technology",
                                         "music", "blog",   "education", "politics", "sports", "business"};

static uint64_t sample_below(uint64_t *random, uint64_t bound)
{
    return random_next(random) % bound; /* the bias is too small to show in a sample */
}

#define SAMPLE_PICK(array, random) ((array)[sample_below(random, sizeof(array) / sizeof *(array))])

static void sample_write_description(struct buf *out, uint64_t *random, const struct language *l)
{
    uint64_t sentences = sample_below(random, 12);
    if (sentences == 0) {
        buf_append_str(out, "null");
        return;
    }
    buf_append_char(out, '"');
    for (uint64_t i = 0; i < sentences; i++)
        buf_printf(out, "%s%s", i == 0 ? "" : i == 3 ? "\\n" : " ", SAMPLE_PICK(l->sentence, random));
    buf_append_char(out, '"');
}

/* An address as long as those of the messenger. */
static void sample_write_avatar(struct buf *out, uint64_t *random)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    buf_append_str(out, "\"https://cdn.example.org/file/");
    for (int i = 0; i < AVATAR_LEN; i++)
        buf_append_char(out, digits[sample_below(random, sizeof digits - 1)]);
    buf_append_str(out, ".jpg\"");
}

/* A day's count differs from the last one by up to 1% for each day between them. */
static void sample_write_history(struct buf *out, uint64_t *random, long long followers)
{
    for (int ago = DAYS - 1; ago >= 0; ago--)
        buf_printf(out, "%s\"2026-11-%d\":%lld", ago == DAYS - 1 ? "{" : ",", LAST_DAY - ago,
                   followers - ago * (long long)sample_below(random, (uint64_t)followers / 100 + 1));
    buf_append_char(out, '}');
}

/* Most ids are large and negative, as those of real channels are. */
void sample_write(struct buf *out, struct span host, int64_t number)
{
    const long long n = number;
    uint64_t random = (uint64_t)n;
    const struct language *l = &SAMPLE_PICK(LANGUAGES, &random);
    const char *category = SAMPLE_PICK(CATEGORIES, &random);
    bool has_second = sample_below(&random, 5) < 3;
    unsigned second = (unsigned)sample_below(&random, DAY_S);
    long long followers = 20LL << sample_below(&random, 17);
    followers += (long long)sample_below(&random, (uint64_t)followers);
    long long percent = 2 + (long long)sample_below(&random, 60);
    buf_printf(out, "{\"max_channel_id\":%lld,\"title\":\"%s %lld\",\"description\":",
               n % 7 == 6 ? 1000 + n : -68000000000000 - n * 1000003, SAMPLE_PICK(l->title, &random), n);
    sample_write_description(out, &random, l);
    buf_append_str(out, ",\"avatar\":");
    sample_write_avatar(out, &random);
    buf_printf(out, ",\"link\":\"https://%.*s/%s_%lld\",\"category\":\"%s\",\"category2\":%s%s%s,",
               (int)host.len, host.data, category, n, category, has_second ? "\"" : "",
               has_second ? SAMPLE_PICK(CATEGORIES, &random) : "null", has_second ? "\"" : "");
    buf_printf(out, "\"followers_cnt_today\":%lld,\"followers_history\":", followers);
    sample_write_history(out, &random, followers);
    buf_printf(out,
               ",\"is_a_plus_flag\":%d,\"views_24h\":%lld,\"views_48h\":%lld,\"er_24h\":%lld,\"er_48h\":%lld,"
               "\"updated_at\":\"2026-11-%dT%02u:%02u:%02u\"}",
               n % 20 == 0, followers * percent / 100, followers * percent / 75, percent, percent * 100 / 75,
               LAST_DAY, second / 3600, second / 60 % 60, second % 60);
}

int sample_parse_count(const char *text, int64_t *out)
{
    if (parse_int64(span_of(text), out) == 0 && *out >= 0 && *out <= SAMPLE_MAX)
        return EXIT_OK;
    return usage_error("sample: expected a number from 0 to %d", SAMPLE_MAX);
}

int command_sample(const struct options *o)
{
    struct buf line = BUF_INIT;
    int64_t count = 0;
    int code = sample_parse_count(o->argument, &count);
    if (code != EXIT_OK)
        return code;
    for (int64_t n = 0; n < count && buf_error(&line) == 0 && ferror(stdout) == 0; n++) {
        buf_clear(&line);
        sample_write(&line, o->hosts.channel_host, n);
        buf_append_char(&line, '\n');
        (void)fwrite(line.data, 1, line.len, stdout);
    }
    code = buf_error(&line) == 0 ? output_finish() : FAIL("out of memory");
    buf_fini(&line);
    return code;
}
