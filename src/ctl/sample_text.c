/* Made-up texts; see sample_text.h. Among them is what breaks careless writers of JSON: quotes, backslashes,
 * tabs. */
#include "ctl/sample_text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { NAMES = 8, SENTENCES = 8 };

struct script {
    const char *first[NAMES];
    const char *second[NAMES];
    const char *space; /* between words and sentences */
    const char *sentence[SENTENCES];
};

static const struct script SCRIPTS[] = {
    {{"Daily", "Northern", "Open", "Quiet", "Rapid", "Golden", "Urban", "Little"},
     {"Kitchen", "Markets", "Gardens", "Science", "Trains", "Stories", "Football", "Startups"},
     " ",
     {"News before breakfast, and nothing after it.", "We read the long reports so that you need not.",
      "Photos, maps and the \"why\" behind them.", "Write to us: editors@example.org",
      "One post a day, never more.", "Ads: C:\\Channels\\price_list.pdf \\ ask the bot.",
      "Rules:\t1) be kind;\t2) no reposts.", "Everything about prices, queues & weather <today>."}},
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

uint64_t prng_next(struct prng *p)
{
    uint64_t z = p->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

uint64_t prng_below(struct prng *p, uint64_t bound)
{
    return prng_next(p) % bound; /* the bias is far below what a sample shows */
}

bool prng_chance(struct prng *p, unsigned percent)
{
    return prng_below(p, 100) < percent;
}

static void append_emoji(struct prng *p, struct buf *out)
{
    buf_append_str(out, EMOJI[prng_below(p, COUNT(EMOJI))]);
}

void sample_title(struct prng *p, uint64_t script, struct buf *out)
{
    const struct script *s = &SCRIPTS[script % COUNT(SCRIPTS)];
    bool quoted = prng_chance(p, 10);
    if (quoted)
        buf_append_char(out, '"');
    buf_append_str(out, s->first[prng_below(p, NAMES)]);
    buf_append_str(out, s->space);
    buf_append_str(out, s->second[prng_below(p, NAMES)]);
    if (quoted)
        buf_append_char(out, '"');
    if (!prng_chance(p, 30))
        return;
    buf_append_char(out, ' ');
    append_emoji(p, out);
}

/* Mostly a few sentences, now and then a page of them. */
void sample_description(struct prng *p, uint64_t script, struct buf *out)
{
    const struct script *s = &SCRIPTS[script % COUNT(SCRIPTS)];
    uint64_t sentences = 1 + prng_below(p, prng_chance(p, 8) ? 40 : 7);
    uint64_t which = prng_next(p);
    for (uint64_t i = 0; i < sentences; i++) {
        if (i > 0 && prng_chance(p, 20))
            buf_append_str(out, prng_chance(p, 50) ? "\n" : "\n\n");
        else if (i > 0)
            buf_append_str(out, s->space);
        if (prng_chance(p, 15)) {
            append_emoji(p, out);
            buf_append_char(out, ' ');
        }
        which += 1 + prng_below(p, SENTENCES - 1); /* never the same twice running */
        buf_append_str(out, s->sentence[which % SENTENCES]);
    }
}

void sample_slug(struct prng *p, struct buf *out)
{
    buf_append_str(out, SLUGS[prng_below(p, COUNT(SLUGS))]);
}

void sample_category(struct prng *p, struct buf *out)
{
    buf_append_str(out, CATEGORIES[prng_below(p, COUNT(CATEGORIES))]);
}

void sample_token(struct prng *p, size_t count, struct buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint64_t bits = 0;
    for (size_t i = 0; i < count; i++) {
        if (i % 10 == 0)
            bits = prng_next(p);
        buf_append_char(out, digits[bits & 63]);
        bits >>= 6;
    }
}
