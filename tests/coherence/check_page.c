/*
 * Judging a page. While the catalogue is whole, page 1 to 3 are the frozen part of the index, channel by
 * channel. On page 4 stand all lively channels, and the tail follows them without a gap, also from page to
 * page; so its place tells how many lively channels the index had. That number is known only between two
 * limits when some of them came or went meanwhile.
 */

#include "coherence/checks.h"

struct lively {
    int least; /* members of the index for certain */
    int most;  /* and perhaps */
};

static bool check_page_shows(const struct page_sighting *page, int channel)
{
    for (int i = 0; i < page->count; i++) {
        if (page->item[i].channel == channel)
            return true;
    }
    return false;
}

static void check_items(const struct trial *trial, const struct page_sighting *page)
{
    for (int i = 0; i < page->count; i++) {
        const struct sighting *item = &page->item[i];
        struct history *member = &trial->checker->world->member[item->channel];
        trial_see(trial, VIEW_SUMMARY, item);
        trial_judge(trial, VIEW_INDEX, history_judge(member, trial->window, 0, INT64_MAX), "member",
                    item->channel);
        for (int k = 0; k < i; k++) {
            if (page->item[k].channel == item->channel)
                trial_violation(trial, VIOLATION_TWICE, "saw channel %d in places %d and %d", item->channel,
                                k, i);
        }
    }
}

/* Where both scores are certain, they must not fall. */
static void check_order(const struct trial *trial, const struct page_sighting *page)
{
    int64_t before = -1;
    for (int i = 0; i < page->count; i++) {
        int64_t score = -1;
        int channel = page->item[i].channel;
        if (!history_is_certain(&trial->checker->world->member[channel], trial->window, &score) || score < 0)
            continue;
        if (score < before)
            trial_violation(trial, VIOLATION_ORDER,
                            "saw channel %d with score %lld in place %d, after one with %lld", channel,
                            (long long)score, i, (long long)before);
        before = score;
    }
}

/* The items from `place` on are the channels from `first` on, one after the other; count of them. */
static void check_run(const struct trial *trial, const struct page_sighting *page, int place, int first,
                      int count)
{
    if (page->count - place != count)
        trial_violation(trial, VIOLATION_LACKING, "saw %d channels from place %d on, expected %d",
                        page->count - place, place, count);
    for (int i = place; i < page->count; i++) {
        if (page->item[i].channel == first + i - place)
            continue;
        trial_violation(trial, VIOLATION_ORDER, "saw channel %d in place %d, expected %d",
                        page->item[i].channel, i, first + i - place);
        return;
    }
}

static struct lively check_count_lively(const struct trial *trial)
{
    struct lively lively = {0, 0};
    for (int i = 0; i < WORLD_LIVELY; i++) {
        struct history *member = &trial->checker->world->member[WORLD_FROZEN + i];
        struct possible possible = history_possible(member, trial->window, 0, INT64_MAX);
        lively.most += possible.inside;
        lively.least += possible.inside && !possible.outside;
    }
    return lively;
}

/* A lively channel that was a member and had a card all the time must be shown. */
static void check_lively_shown(const struct trial *trial, const struct page_sighting *page)
{
    const struct world *world = trial->checker->world;
    for (int i = WORLD_FROZEN; i < WORLD_FROZEN + WORLD_LIVELY; i++) {
        struct possible member = history_possible(&world->member[i], trial->window, 0, INT64_MAX);
        struct possible card = history_possible(&world->card[i], trial->window, 0, INT64_MAX);
        if (!member.outside && !card.outside && !check_page_shows(page, i))
            trial_violation(trial, VIOLATION_LACKING, "lacks channel %d, which was a member all the time", i);
    }
}

/*
 * The tail on a page: it begins where the number of lively channels puts it, and goes on to its end or the
 * page's.
 */
static void check_tail(const struct trial *trial, const struct page_sighting *page, struct lively lively)
{
    const int tail = WORLD_FROZEN + WORLD_LIVELY;
    int before = (trial->question->object - WORLD_FROZEN_PAGES - 1) * WORLD_PAGE; /* ranks on earlier pages */
    int place = 0;
    while (before == 0 && place < page->count && world_part(page->item[place].channel) == PART_LIVELY)
        place++;
    if (place == page->count) {
        if (WORLD_TAIL + lively.least > before)
            trial_violation(trial, VIOLATION_LACKING, "saw nothing of the tail");
        return;
    }
    int first = page->item[place].channel - tail;
    int left = WORLD_TAIL - first;
    int members = before - first; /* lively ones in the index, as this page has it */
    if (before == 0) {
        left = page->count - place;
        members = first == 0 ? WORLD_PAGE - left : -1;
    }
    check_run(trial, page, place, tail + first, left < WORLD_PAGE ? left : WORLD_PAGE);
    if (members < lively.least || members > lively.most)
        trial_violation(trial, VIOLATION_LACKING,
                        "its tail begins with number %d, as if %d lively channels were members; %d to %d are",
                        first, members, lively.least, lively.most);
}

/* More pages follow when the index goes on beyond this one. */
static void check_has_next(const struct trial *trial, const struct page_sighting *page, struct lively lively)
{
    int end = trial->question->object * WORLD_PAGE;
    int least = WORLD_FROZEN + lively.least + WORLD_TAIL;
    int most = WORLD_FROZEN + lively.most + WORLD_TAIL;
    if ((page->has_next && most <= end) || (!page->has_next && least > end))
        trial_violation(trial, VIOLATION_LACKING, "has_next is %s, the index has %d to %d members",
                        page->has_next ? "true" : "false", least, most);
}

static void check_structure(const struct trial *trial, const struct page_sighting *page)
{
    int number = trial->question->object;
    struct lively lively = check_count_lively(trial);
    check_has_next(trial, page, lively);
    if (number <= WORLD_FROZEN_PAGES) {
        check_run(trial, page, 0, (number - 1) * WORLD_PAGE, WORLD_PAGE);
        return;
    }
    if (number == WORLD_FROZEN_PAGES + 1)
        check_lively_shown(trial, page);
    check_tail(trial, page, lively);
}

void check_page(const struct trial *trial)
{
    struct page_sighting page;
    enum reading reading =
        answer_read_page(trial->checker->world, trial->reply->body, trial->reply->length, &page);
    if (reading != READING_GOOD) {
        trial_unreadable(trial, reading);
        return;
    }
    if (page.page != trial->question->object)
        trial_violation(trial, VIOLATION_INVENTED, "saw page %d", (int)page.page);
    check_items(trial, &page);
    check_order(trial, &page);
    if (trial->outlook.settled)
        check_structure(trial, &page);
}
