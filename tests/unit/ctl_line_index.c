/* The index of the lines of a file: the last line of each channel, in the order of the first ones. */
#include "ctl/line_index.h"

#include "support/test.h"

enum { MANY = 100000 };

static struct line_index index_of_lines;

static int start(void **state)
{
    (void)state;
    line_index_init(&index_of_lines);
    return 0;
}

static int end(void **state)
{
    (void)state;
    line_index_fini(&index_of_lines);
    return 0;
}

static int put(int64_t id, int64_t number, const char *link)
{
    struct line_index *x = &index_of_lines;
    struct indexed_line line = {.id = id, .offset = 10 * number, .number = number};
    if (link != NULL)
        line.link = line_index_link_hash(x, (struct span){link, strlen(link)});
    return line_index_put(x, &line);
}

TEST_CASE_WITH(nothing_is_found_in_an_empty_index, start, end)
{
    assert_null(line_index_find(&index_of_lines, 0));
    assert_int_equal(line_index_begin_links(&index_of_lines), 0);
    line_index_end_links(&index_of_lines);
}

TEST_CASE_WITH(last_line_of_a_channel_counts, start, end)
{
    assert_int_equal(put(7, 1, NULL), 1);
    assert_int_equal(put(-7, 2, NULL), 1);
    assert_int_equal(put(7, 3, NULL), 0);
    assert_int_equal(index_of_lines.count, 2);
    assert_int_equal(index_of_lines.line[0].id, 7);
    assert_int_equal(index_of_lines.line[1].id, -7);
    assert_int_equal(line_index_find(&index_of_lines, 7)->number, 3);
    assert_int_equal(line_index_find(&index_of_lines, 7)->offset, 30);
    assert_int_equal(line_index_find(&index_of_lines, -7)->number, 2);
    assert_null(line_index_find(&index_of_lines, 0));
}

TEST_CASE_WITH(every_channel_is_found_however_many_there_are, start, end)
{
    for (int i = 0; i < MANY; i++)
        assert_int_equal(put((int64_t)i * 1000003 - MANY, i, NULL), 1);
    assert_int_equal(index_of_lines.count, MANY);
    for (int i = 0; i < MANY; i++) {
        const struct indexed_line *line = line_index_find(&index_of_lines, (int64_t)i * 1000003 - MANY);
        assert_non_null(line);
        assert_int_equal(line->number, i);
        assert_ptr_equal(line, &index_of_lines.line[i]);
        assert_null(line_index_find(&index_of_lines, (int64_t)i * 1000003 - MANY + 1));
    }
}

/* In the order of their lines, and not of the channels. */
TEST_CASE_WITH(link_belongs_to_the_first_of_the_last_lines, start, end)
{
    struct line_index *x = &index_of_lines;
    assert_int_equal(put(1, 1, "a"), 1);
    assert_int_equal(put(2, 2, "b"), 1);
    assert_int_equal(put(3, 3, "a"), 1);
    assert_int_equal(put(4, 4, NULL), 1);
    assert_int_equal(put(1, 5, "b"), 0);
    assert_int_equal(line_index_begin_links(x), 0);
    assert_int_equal(line_index_link_owner(x, x->line[0].link)->id, 2);
    assert_int_equal(line_index_link_owner(x, x->line[2].link)->id, 3);
    line_index_end_links(x);
}
