/* The intrusive list: order, removal from anywhere, and links that are in no list. */
#include "base/list.h"

#include "unit/check.h"

struct item {
    int number;
    struct list link;
};

static struct item item[5]; /* numbered by their place */
static struct list head;

static int begin(void **state)
{
    (void)state;
    list_init(&head);
    for (int i = 0; i < 5; i++) {
        item[i].number = i;
        list_init(&item[i].link);
    }
    return 0;
}

#define LIST_TEST(name) TEST_CASE_WITH(name, begin, NULL)

/* Appends items from `first` to `last`. */
static void append(struct list *to, int first, int last)
{
    for (int i = first; i <= last; i++)
        list_append(to, &item[i].link);
}

/* The numbers in the list as text, read forwards; the way back must agree. */
static void assert_numbers(const struct list *list, const char *expected)
{
    SCOPED_BUF(seen);
    int forwards = 0;
    for (struct list *l = list->next; l != list; l = l->next) {
        assert_ptr_equal(l->next->prev, l);
        assert_ptr_equal(l->prev->next, l);
        buf_append_int(&seen, LIST_ENTRY(l, struct item, link)->number);
        forwards++;
    }
    int backwards = 0;
    for (struct list *l = list->prev; l != list; l = l->prev)
        backwards++;
    assert_int_equal(forwards, backwards);
    assert_buf(&seen, expected);
    assert_true(list_empty(list) == (expected[0] == '\0'));
}

LIST_TEST(appended_links_keep_their_order)
{
    assert_numbers(&head, "");
    append(&head, 1, 1);
    assert_numbers(&head, "1");
    append(&head, 2, 3);
    assert_numbers(&head, "123");
}

LIST_TEST(links_are_removed_at_any_position)
{
    append(&head, 1, 3);
    list_remove(&item[2].link);
    assert_numbers(&head, "13");
    list_remove(&item[1].link);
    assert_numbers(&head, "3");
    list_remove(&item[3].link);
    assert_numbers(&head, "");
}

LIST_TEST(removal_of_an_unlisted_link_does_nothing)
{
    append(&head, 1, 1);
    list_remove(&item[2].link);
    list_remove(&item[1].link);
    list_remove(&item[1].link);
    assert_numbers(&head, "");
    assert_true(list_empty(&item[1].link));
}

LIST_TEST(removed_link_can_be_listed_again)
{
    append(&head, 1, 2);
    list_remove(&item[1].link);
    append(&head, 1, 1);
    assert_numbers(&head, "21");
}

LIST_TEST(splice_appends_all_links)
{
    struct list from;
    list_init(&from);
    append(&head, 1, 2);
    append(&from, 3, 4);
    list_splice(&head, &from);
    assert_numbers(&head, "1234");
    assert_numbers(&from, "");
}

LIST_TEST(splice_of_empty_lists)
{
    struct list from;
    list_init(&from);
    list_splice(&head, &from);
    assert_numbers(&head, "");
    append(&from, 1, 1);
    list_splice(&head, &from);
    list_splice(&head, &from);
    assert_numbers(&head, "1");
    append(&from, 2, 2);
    assert_numbers(&from, "2");
}
