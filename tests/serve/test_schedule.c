/* How passes are filled: shares of prompts, slices of time, and what waiting clients see. */
#include "serve/schedule.h"
#include "support.h"

#include <math.h>
#include <string.h>

static void test_shares(void **state)
{
    kvsi_waiting_prompt p[3] = {{.left = 5000, .arrival = 1}, {.left = 100, .arrival = 2}, {0}};

    (void)state;
    kvsi_divide_slice(p, 3, 64);
    assert_int_equal(p[0].now, 32); /* it came first */
    assert_int_equal(p[1].now, 32); /* it is shorter */
    assert_int_equal(p[2].now, 0);
    kvsi_divide_slice(p, 3, 1);
    assert_int_equal(p[0].now + p[1].now, 1);
    assert_int_equal(p[0].now, 1); /* a token at a time the first one gets on too */
    kvsi_divide_slice(p, 3, 0);
    assert_int_equal(p[0].now + p[1].now, 0);
    p[1].left = 10; /* what a prompt does not need, others get */
    kvsi_divide_slice(p, 3, 64);
    assert_int_equal(p[0].now, 54);
    assert_int_equal(p[1].now, 10);
    p[0].left = 3;
    kvsi_divide_slice(p, 3, 64);
    assert_int_equal(p[0].now, 3);
    assert_int_equal(p[1].now, 10);
    p[0].arrival = 9;
    p[0].left = 5000;
    p[1].left = 5000;
    kvsi_divide_slice(p, 3, 63);
    assert_int_equal(p[1].now, 63); /* first and, of equal ones, the shortest */
    kvsi_divide_slice(p, 0, 63);
}

/* The short prompt of two is fed before half of the long one. */
static void test_short_before_long(void **state)
{
    (void)state;
    for (int short_first = 0; short_first < 2; short_first++) {
        kvsi_waiting_prompt p[2] = {{.left = 5000, .arrival = 2 - (uint64_t)!short_first},
                                    {.left = 100, .arrival = 1 + (uint64_t)!short_first}};

        while (p[1].left > 0) {
            kvsi_divide_slice(p, 2, 64);
            p[0].left -= p[0].now;
            p[1].left -= p[1].now;
        }
        assert_true(p[0].left > 2500);
    }
}

/* Under a stream of short prompts a long one still ends. */
static void test_no_starvation(void **state)
{
    kvsi_waiting_prompt p[3] = {{.left = 5000, .arrival = 1}};
    uint64_t arrivals = 1;
    size_t passes = 0;

    (void)state;
    for (; p[0].left > 0; passes++) {
        for (size_t i = 1; i < 3; i++)
            if (p[i].left == 0)
                p[i] = (kvsi_waiting_prompt){.left = 40, .arrival = ++arrivals};
        kvsi_divide_slice(p, 3, 64);
        for (size_t i = 0; i < 3; i++)
            p[i].left -= p[i].now;
    }
    assert_true(passes <= 5000 / 32 + 1);
}

/* A machine on which a pass takes a + b tokens^0.9 + c tokens context seconds. */
typedef struct machine {
    double pass, token, context;
} machine;

static double duration(const machine *m, size_t tokens, size_t fed)
{
    return m->pass + m->token * pow((double)tokens, 0.9) +
           m->context * (double)tokens * (double)fed;
}

/* While a text is generated, a prompt of `length` tokens arrives.  Returns the longest time between
 * two tokens of the text, in slices, without that of a pass without prompts. */
static double longest_gap(const machine *m, size_t length, size_t pass_tokens, double slice)
{
    kvsi_costs costs = {0};
    double longest = 0;

    for (int i = 0; i < 20; i++)
        kvsi_costs_note(&costs, m->pass, 1, 0);
    for (size_t fed = 0; fed < length;) {
        kvsi_waiting_prompt p = {.left = length - fed, .arrival = 1};
        size_t tokens = kvsi_costs_slice(&costs, slice);
        double seconds;

        tokens = tokens < pass_tokens - 1 ? tokens : pass_tokens - 1;
        kvsi_divide_slice(&p, 1, tokens);
        assert_true(p.now >= 1 && p.now <= tokens);
        seconds = duration(m, p.now, fed);
        kvsi_costs_note(&costs, seconds, 1, p.now);
        longest = seconds > longest ? seconds : longest;
        fed += p.now;
    }
    return (longest - m->pass) / slice;
}

static void test_slices(void **state)
{
    static const machine machines[] = {
        {0.02, 1e-3, 0},    /* 1000 tokens per second */
        {0.002, 1e-4, 0},   /* ten times faster */
        {0.02, 1e-3, 1e-6}, /* attention becomes dear */
        {0.0001, 2e-3, 2e-7},
    };

    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        for (size_t length = 100; length <= 10000; length *= 10) {
            const double gap = longest_gap(&machines[i], length, 256, 0.05);

            if (gap > 3)
                fail_msg("machine %zu, %zu tokens: a gap of %.2f slices", i, length, gap);
        }
}

/* A slice is used: on a steady machine a prompt takes about as many passes as it has slices. */
static void test_slices_are_full(void **state)
{
    kvsi_costs costs = {0};
    size_t passes = 0;

    (void)state;
    kvsi_costs_note(&costs, 0.01, 1, 0);
    for (size_t fed = 0; fed < 4000; passes++) {
        const size_t tokens = kvsi_costs_slice(&costs, 0.05);

        kvsi_costs_note(&costs, 0.01 + 1e-3 * (double)tokens, 1, tokens);
        fed += tokens;
    }
    assert_in_range(passes, 80, 90); /* 50 tokens per pass */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),          cmocka_unit_test(test_short_before_long),
        cmocka_unit_test(test_no_starvation),   cmocka_unit_test(test_slices),
        cmocka_unit_test(test_slices_are_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
