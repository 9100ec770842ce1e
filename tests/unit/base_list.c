/* The intrusive list: order, removal from anywhere, and links that are in no list. */
#include "base/list.h"

#include "unit/check.h"

struct item {
    int number;
    struct list link;
};

static struct item make(int number)
{
    return (struct item){.number = number};
}

/* The numbers in the list as text, read forwards; the way back must agree. */
static void assert_numbers(const struct list *head, const char *expected)
{
    SCOPED_BUF(seen);
    int forwards = 0;
    for (struct list *l = head->next; l != head; l = l->next) {
        assert_ptr_equal(l->next->prev, l);
        assert_ptr_equal(l->prev->next, l);
        buf_append_int(&seen, LIST_ENTRY(l, struct item, link)->number);
        forwards++;
    }
    int backwards = 0;
    for (struct list *l = head->prev; l != head; l = l->prev)
        backwards++;
    assert_int_equal(forwards, backwards);
    assert_buf(&seen, expected);
    assert_true(list_empty(head) == (expected[0] == '\0'));
}

TEST_CASE(appended_links_keep_their_order)
{
    struct list head;
    struct item a = make(1);
    struct item b = make(2);
    struct item c = make(3);
    list_init(&head);
    assert_numbers(&head, "");
    list_append(&head, &a.link);
    assert_numbers(&head, "1");
    list_append(&head, &b.link);
    list_append(&head, &c.link);
    assert_numbers(&head, "123");
}

TEST_CASE(links_are_removed_at_any_position)
{
    struct list head;
    struct item a = make(1);
    struct item b = make(2);
    struct item c = make(3);
    list_init(&head);
    list_append(&head, &a.link);
    list_append(&head, &b.link);
    list_append(&head, &c.link);
    list_remove(&b.link);
    assert_numbers(&head, "13");
    list_remove(&a.link);
    assert_numbers(&head, "3");
    list_remove(&c.link);
    assert_numbers(&head, "");
}

TEST_CASE(removal_of_an_unlisted_link_does_nothing)
{
    struct list head;
    struct item a = make(1);
    struct item b = make(2);
    list_init(&head);
    list_init(&b.link);
    list_append(&head, &a.link);
    list_remove(&b.link);
    list_remove(&a.link);
    list_remove(&a.link);
    assert_numbers(&head, "");
    assert_true(list_empty(&a.link));
}

TEST_CASE(removed_link_can_be_listed_again)
{
    struct list head;
    struct item a = make(1);
    struct item b = make(2);
    list_init(&head);
    list_append(&head, &a.link);
    list_append(&head, &b.link);
    list_remove(&a.link);
    list_append(&head, &a.link);
    assert_numbers(&head, "21");
}

TEST_CASE(splice_appends_all_links)
{
    struct list to;
    struct list from;
    struct item a = make(1);
    struct item b = make(2);
    struct item c = make(3);
    struct item d = make(4);
    list_init(&to);
    list_init(&from);
    list_append(&to, &a.link);
    list_append(&to, &b.link);
    list_append(&from, &c.link);
    list_append(&from, &d.link);
    list_splice(&to, &from);
    assert_numbers(&to, "1234");
    assert_numbers(&from, "");
}

TEST_CASE(splice_of_empty_lists)
{
    struct list to;
    struct list from;
    struct item a = make(1);
    list_init(&to);
    list_init(&from);
    list_splice(&to, &from);
    assert_numbers(&to, "");
    list_append(&from, &a.link);
    list_splice(&to, &from);
    assert_numbers(&to, "1");
    list_splice(&to, &from);
    assert_numbers(&to, "1");
    list_append(&from, &(struct item){.number = 2}.link);
    assert_numbers(&from, "2");
}
