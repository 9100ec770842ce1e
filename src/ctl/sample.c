/*
 * Generated channels, written by the code that writes the API's responses, and channelctl sample. The same
 * seed gives the same channels on every machine. The texts contain what careless JSON writers get wrong:
 * quotes, backslashes, tabs.
 */
#include "ctl/sample.h"

#include "base/hash.h"
#include "base/text.h"
#include "ctl/terminal.h"
#include "model/channel.h"

#include <stdlib.h>

/* --- Random numbers --- */

struct prng {
    uint64_t state;
};

static uint64_t sample_prng_next(struct prng *p)
{
    return random_next(&p->state);
}

/* A number from 0 to `bound` - 1; `bound` is at least 1. */
static uint64_t sample_prng_below(struct prng *p, uint64_t bound)
{
    return sample_prng_next(p) % bound; /* the bias is too small to show in a sample */
}

/* True in `percent` of 100 cases. */
static bool sample_prng_chance(struct prng *p, unsigned percent)
{
    return sample_prng_below(p, 100) < percent;
}

/* --- Texts --- */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { NAMES = 8, SENTENCES = 8 };

struct script {
    const char *first[NAMES];
    const char *second[NAMES];
    const char *space; /* between words, and between sentences */
    const char *sentence[SENTENCES];
};

static const struct script SCRIPTS[] = {
    {{"Daily", "Northern", "Open", "Quiet", "Rapid", "Golden", "Urban", "Little"},
     {"Kitchen", "Markets", "Gardens", "Science", "Trains", "Stories", "Football", "Startups"},
     " ",
     {"News before breakfast, and nothing after it.", "We read the long reports so that you need not.",
      "Photos, maps and the \"why\" behind them.", "Write to us: editors@example.org",
      "One post a day, never more.", "Ads: C:\\Channels\\price_list.pdf \\ ask the bot.",
      "Rules:\t1) be kind;\t2) no reposts.", "Everything about prices, queues & traffic <today>."}},
    {{"Главные", "Городские", "Тихие", "Весёлые", "Домашние", "Честные", "Новые", "Вечерние"},
     {"новости", "рецепты", "истории", "маршруты", "финансы", "уроки", "фильмы", "советы"},
     " ",
     {"Коротко о том, что важно сегодня.", "Без рекламы и лишних слов.", "Пишите в бот: ответим каждому.",
      "Лучшие рецепты наших читателей.", "«Кавычки», тире — и ни одной ошибки.",
      "Подписывайтесь, будет интересно!", "Разбираем законы простым языком.",
      "По вопросам сотрудничества: @example_bot"}},
    {{"Hyvä", "Pohjoinen", "Vanha", "Iloinen", "Äkkilähtö", "Käytännön", "Öinen", "Yhteinen"},
     {"keittiö", "talous", "jääkiekko", "luonto", "kirjasto", "matkailu", "tiede", "käsityö"},
     " ",
     {"Päivän tärkeimmät uutiset yhdessä paikassa.", "Puhutaan, kun puhutaan asiaa.", "Tervetuloa mukaan!",
      "Lähetä vinkki: vinkit@example.org", "Ilmaiset vinkit joka arkipäivä.", "Säännöt: ole ystävällinen.",
      "Ei mainoksia, ei botteja.", "Kaikki \"parhaat\" reitit kartalla."}},
    {{"أخبار", "مطبخ", "دليل", "عالم", "نافذة", "رحلات", "قصص", "أسواق"},
     {"المدينة", "اليوم", "العائلة", "العلوم", "الرياضة", "التقنية", "الصحراء", "البحر"},
     " ",
     {"كل ما يهمك في مكان واحد.", "نشر يومي بلا إعلانات.", "راسلونا عبر البوت.", "صور وخرائط وقصص قصيرة.",
      "أفضل الوصفات من قرائنا.", "أسعار السوق كل صباح.", "مرحبا بكم جميعا!", "تابعونا، القادم أجمل."}},
    {{"每日", "城市", "安静的", "金色", "北方", "小小", "开放", "快乐"},
     {"厨房", "科学", "故事", "市场", "足球", "花园", "旅行", "电影"},
     "",
     {"每天一条，不多不少。", "我们替你读完长长的报告。", "欢迎投稿：editors@example.org", "没有广告。",
      "“引号”与换行都会出现。", "最好的路线都在地图上。", "请遵守规则，友善交流。",
      "价格、天气和排队情况。"}},
    {{"साफ़", "नई", "रोज़ की", "अपना", "खुली", "छोटी", "तेज़", "सुनहरी"},
     {"ख़बरें", "रसोई", "कहानियाँ", "बाज़ार", "यात्रा", "खेल", "किताबें", "विज्ञान"},
     " ",
     {"दिन की सबसे ज़रूरी बातें।", "बिना विज्ञापन, बिना शोर।", "हमें लिखिए, जवाब ज़रूर मिलेगा।",
      "पाठकों की पसंदीदा रेसिपी।", "हर सुबह बाज़ार के भाव।", "आइए, साथ सीखते हैं!", "कम शब्दों में पूरी बात।",
      "नक्शे, तस्वीरें और कहानियाँ।"}},
};

static const char *const EMOJI[] = {"📈", "🔥",    "❤️", "🇫🇮", "👩‍🍳", "⚡",
                                    "🎬", "🏒", "🌍",      "✅",  "🧵",        "👨‍👩‍👧"};

static const char *const SLUGS[] = {"news",  "kitchen", "city",   "sport",  "crypto", "travel",
                                    "music", "cinema",  "health", "school", "style",  "games",
                                    "books", "cars",    "jobs",   "humor"};

static const char *const CATEGORIES[] = {"news",  "health", "crypto",    "travel",   "humor",  "technology",
                                         "music", "blog",   "education", "politics", "sports", "business"};

static void sample_append_emoji(struct prng *p, struct buf *out)
{
    buf_append_str(out, EMOJI[sample_prng_below(p, COUNT(EMOJI))]);
}

/* Each appends a text in the script that the number `script` selects. */
static void sample_put_title(struct prng *p, uint64_t script, struct buf *out)
{
    const struct script *s = &SCRIPTS[script % COUNT(SCRIPTS)];
    bool quoted = sample_prng_chance(p, 10);
    if (quoted)
        buf_append_char(out, '"');
    buf_append_str(out, s->first[sample_prng_below(p, NAMES)]);
    buf_append_str(out, s->space);
    buf_append_str(out, s->second[sample_prng_below(p, NAMES)]);
    if (quoted)
        buf_append_char(out, '"');
    if (!sample_prng_chance(p, 30))
        return;
    buf_append_char(out, ' ');
    sample_append_emoji(p, out);
}

/* Mostly a few sentences, sometimes a page. */
static void sample_put_description(struct prng *p, uint64_t script, struct buf *out)
{
    const struct script *s = &SCRIPTS[script % COUNT(SCRIPTS)];
    uint64_t sentences = 1 + sample_prng_below(p, sample_prng_chance(p, 8) ? 40 : 7);
    uint64_t which = sample_prng_next(p);
    for (uint64_t i = 0; i < sentences; i++) {
        if (i > 0 && sample_prng_chance(p, 20))
            buf_append_str(out, sample_prng_chance(p, 50) ? "\n" : "\n\n");
        else if (i > 0)
            buf_append_str(out, s->space);
        if (sample_prng_chance(p, 15)) {
            sample_append_emoji(p, out);
            buf_append_char(out, ' ');
        }
        which += 1 + sample_prng_below(p, SENTENCES - 1); /* never the same one twice in a row */
        buf_append_str(out, s->sentence[which % SENTENCES]);
    }
}

/* A word of [a-z], for a link. */
static void sample_put_slug(struct prng *p, struct buf *out)
{
    buf_append_str(out, SLUGS[sample_prng_below(p, COUNT(SLUGS))]);
}

static void sample_put_category(struct prng *p, struct buf *out)
{
    buf_append_str(out, CATEGORIES[sample_prng_below(p, COUNT(CATEGORIES))]);
}

/* `count` characters of base64url. */
static void sample_put_token(struct prng *p, size_t count, struct buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint64_t bits = 0;
    for (size_t i = 0; i < count; i++) {
        if (i % 10 == 0)
            bits = sample_prng_next(p);
        buf_append_char(out, digits[bits & 63]);
        bits >>= 6;
    }
}

/* --- Channels --- */

enum { SAMPLE_MAX = 100 * 1000 * 1000, FIRST_DAY = 11, PIECE = 128 * 1024, SECONDS_PER_DAY = 86400 };

/* The month of every history and update. */
#define MONTH "2026-11-"
enum { LAST_DAY = FIRST_DAY + HISTORY_DAYS_MAX - 1 };

/* The channel that is being generated: its values follow each other in `text`. */
struct values {
    struct buf text;
    size_t begin[CHANNEL_FIELD_COUNT];
    size_t end[CHANNEL_FIELD_COUNT]; /* 0: absent */
    size_t at;                       /* where the next value begins */
};

static void sample_finish_field(struct values *v, enum channel_field f)
{
    v->begin[f] = v->at;
    v->end[f] = v->text.len;
    v->at = v->text.len;
}

static void sample_put_number(struct values *v, enum channel_field f, uint64_t value)
{
    buf_append_int(&v->text, (int64_t)value);
    sample_finish_field(v, f);
}

/* Most ids are large and negative, like those of real channels. Each n has a range of its own. */
static void sample_put_id(struct values *v, struct prng *p, int64_t n)
{
    const int64_t base = INT64_C(68000000000000);
    const int64_t range = 1000003;
    int64_t id = sample_prng_chance(p, 14)
                     ? 1000 + n
                     : -(base + n * range + (int64_t)sample_prng_below(p, (uint64_t)range));
    buf_append_int(&v->text, id);
    sample_finish_field(v, CHANNEL_FIELD_max_channel_id);
}

static void sample_put_link(struct values *v, struct prng *p, const struct options *o, int64_t n)
{
    buf_printf(&v->text, "https://%s/", o->channel_host);
    sample_put_slug(p, &v->text);
    buf_printf(&v->text, "_%lld", (long long)n);
    sample_finish_field(v, CHANNEL_FIELD_link);
}

static void sample_put_avatar(struct values *v, struct prng *p)
{
    buf_append_str(&v->text, "https://cdn.example.org/file/");
    sample_put_token(p, 260, &v->text);
    buf_append_str(&v->text, ".jpg");
    sample_finish_field(v, CHANNEL_FIELD_avatar);
}

static void sample_put_texts(struct values *v, struct prng *p)
{
    uint64_t script = sample_prng_next(p);
    sample_put_title(p, script, &v->text);
    sample_finish_field(v, CHANNEL_FIELD_title);
    if (!sample_prng_chance(p, 6)) {
        sample_put_description(p, script, &v->text);
        sample_finish_field(v, CHANNEL_FIELD_description);
    }
    if (!sample_prng_chance(p, 8))
        sample_put_avatar(v, p);
    sample_put_category(p, &v->text);
    sample_finish_field(v, CHANNEL_FIELD_category);
    if (!sample_prng_chance(p, 40)) {
        sample_put_category(p, &v->text);
        sample_finish_field(v, CHANNEL_FIELD_category2);
    }
}

/* Each day's count is within 1% of the day before. Returns the last count. */
static uint64_t sample_put_history(struct values *v, struct prng *p, uint64_t followers)
{
    for (int day = FIRST_DAY; day <= LAST_DAY; day++) {
        followers += sample_prng_below(p, followers / 50 + 3);
        followers -= followers / 100 + 1;
        buf_printf(&v->text, "%s\"" MONTH "%d\":%llu", day == FIRST_DAY ? "{" : ",", day,
                   (unsigned long long)followers);
    }
    buf_append_char(&v->text, '}');
    sample_finish_field(v, CHANNEL_FIELD_followers_history);
    return followers;
}

static void sample_put_numbers(struct values *v, struct prng *p)
{
    uint64_t size = UINT64_C(20) << sample_prng_below(p, 17);
    uint64_t followers = sample_put_history(v, p, size + sample_prng_below(p, size));
    sample_put_number(v, CHANNEL_FIELD_followers_cnt_today, followers);
    sample_put_number(v, CHANNEL_FIELD_is_a_plus_flag, sample_prng_chance(p, 5) ? 1 : 0);
    if (sample_prng_chance(p, 4))
        return; /* a channel whose views are unknown */
    uint64_t views = followers * (2 + sample_prng_below(p, 60)) / 100;
    uint64_t more = views + views * sample_prng_below(p, 70) / 100;
    sample_put_number(v, CHANNEL_FIELD_views_24h, views);
    sample_put_number(v, CHANNEL_FIELD_views_48h, more);
    sample_put_number(v, CHANNEL_FIELD_er_24h, views * 100 / followers);
    sample_put_number(v, CHANNEL_FIELD_er_48h, more * 100 / followers);
}

static void sample_put_update(struct values *v, struct prng *p)
{
    unsigned second = (unsigned)sample_prng_below(p, SECONDS_PER_DAY);
    buf_printf(&v->text, MONTH "%dT%02u:%02u:%02u", (int)LAST_DAY, second / 3600, second / 60 % 60,
               second % 60);
    sample_finish_field(v, CHANNEL_FIELD_updated_at);
}

static void sample_write_values(const struct values *v, struct buf *out)
{
    struct channel_row row = {0};
    for (size_t f = 0; f < CHANNEL_FIELD_COUNT; f++)
        if (v->end[f] != 0)
            row.value[f] = (struct span){v->text.data + v->begin[f], v->end[f] - v->begin[f]};
    (void)channel_write(out, &row, CHANNEL_CARD);
    buf_append_char(out, '\n');
}

struct samples {
    const struct options *options;
    struct prng prng;
    struct values values;
    int64_t made, count;
};

static void sample_make_channel(struct samples *s, struct buf *out)
{
    struct values *v = &s->values;
    struct prng *p = &s->prng;
    *v = (struct values){.text = v->text};
    buf_clear(&v->text);
    sample_put_id(v, p, s->made);
    sample_put_texts(v, p);
    if (!sample_prng_chance(p, 1))
        sample_put_link(v, p, s->options, s->made);
    sample_put_numbers(v, p);
    sample_put_update(v, p);
    s->made++;
    if (buf_error(&v->text) != 0)
        out->error = buf_error(&v->text);
    else
        sample_write_values(v, out);
}

struct samples *samples_new(const struct options *o, const char *count, int *code)
{
    int64_t n = 0;
    int64_t seed = 1;
    *code = EXIT_USAGE;
    if (parse_int64(span_of(count), &n) != 0 || n < 0 || n > SAMPLE_MAX)
        usage_error("sample: expected a number from 0 to %d", SAMPLE_MAX);
    else if (o->flag[FLAG_SEED] != NULL && parse_int64(span_of(o->flag[FLAG_SEED]), &seed) != 0)
        usage_error("--seed: expected an integer");
    else
        *code = EXIT_OK;
    struct samples *s = *code == EXIT_OK ? malloc(sizeof *s) : NULL;
    if (s != NULL)
        *s = (struct samples){
            .options = o, .prng = {(uint64_t)seed}, .values = {.text = BUF_INIT}, .count = n};
    else if (*code == EXIT_OK)
        *code = memory_error();
    return s;
}

void samples_free(struct samples *s)
{
    if (s != NULL)
        buf_fini(&s->values.text);
    free(s);
}

int samples_next(struct samples *s, struct buf *out)
{
    size_t end = out->len + PIECE;
    while (s->made < s->count && out->len < end && buf_error(out) == 0)
        sample_make_channel(s, out);
    return buf_error(out);
}

/* Returns the exit code. */
static int sample_print(struct samples *s)
{
    struct buf out = BUF_INIT;
    int err = samples_next(s, &out);
    while (err == 0 && out.len > 0 && fwrite(out.data, 1, out.len, stdout) == out.len) {
        buf_clear(&out);
        err = samples_next(s, &out);
    }
    int code = err == 0 ? output_finish() : memory_error();
    buf_fini(&out);
    return code;
}

int command_sample(const struct options *o, int count, char **words)
{
    int code = EXIT_OK;
    struct samples *s = samples_new(o, count == 1 ? words[0] : "", &code);
    if (s == NULL)
        return code;
    code = sample_print(s);
    samples_free(s);
    return code;
}
