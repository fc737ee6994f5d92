/* Grades a solution that a model wrote: the paper's lenient check of the asked step, and a strict
 * check of everything.
 *
 * A step is right if it equals, word for word, the step that we would write with its letters.  So
 * each step is written again, with the letters taken from the model's line, and compared. */
#include "data/tasks/igsm.h"

#include <string.h>

typedef struct reader {
    const kvsi_igsm_words *words;
    const kvsi_igsm_problem *problem;
    const uint16_t *line; /* the current step */
    size_t count;
    kvsi_igsm_letters letters;
    uint8_t defined[KVSI_IGSM_PARAMETERS_MAX];
} reader;

/* The letter at this position if it is free; otherwise any free letter, which will not match. */
static int choose_written(void *user, size_t position, const uint8_t used[KVSI_IGSM_LETTERS])
{
    const reader *r = user;
    const int written =
        position < r->count ? kvsi_igsm_read_letter(r->words, r->line[position]) : -1;
    int letter = 0;

    if (written >= 0 && !used[written])
        return written;
    while (letter < KVSI_IGSM_LETTERS - 1 && (used[letter] || letter == written))
        letter++;
    return letter;
}

static int sources_are_defined(const reader *r, size_t index)
{
    const kvsi_igsm_parameter *p = &r->problem->parameters[index];

    for (size_t i = 0; i < p->source_count; i++)
        if (!r->defined[p->sources[i]])
            return 0;
    return 1;
}

/* Mode paper names values a, b, c, ... */
static int letters_are_in_order(const reader *r, size_t step)
{
    if (r->words->mode != KVSI_IGSM_PAPER)
        return 1;
    for (size_t i = 0; i < KVSI_IGSM_LETTERS; i++)
        if (r->letters.used[i] != (i <= step))
            return 0;
    return 1;
}

static int is_needed(const kvsi_igsm_problem *p, size_t index)
{
    for (size_t i = 0; i < p->solved_count; i++)
        if (p->solved[i] == index)
            return 1;
    return 0;
}

static int step_is_right(reader *r, size_t index, size_t step)
{
    kvsi_igsm_text expected = {.count = 0};

    if (r->defined[index] || !is_needed(r->problem, index) || !sources_are_defined(r, index))
        return 0;
    kvsi_igsm_write_step(&expected, r->words, r->problem, index, &r->letters);
    r->defined[index] = 1;
    return expected.count == r->count &&
           memcmp(expected.words, r->line, r->count * sizeof *r->line) == 0 &&
           letters_are_in_order(r, step);
}

static int last_number(const kvsi_igsm_words *words, const uint16_t *line, size_t count)
{
    for (size_t i = count; i-- > 0;)
        if (kvsi_igsm_read_number(words, line[i]) >= 0)
            return kvsi_igsm_read_number(words, line[i]);
    return -1;
}

/* The last line in mode official. */
static int is_answer(const reader *r, int *right)
{
    if (r->words->mode != KVSI_IGSM_OFFICIAL || r->count != 2 || r->line[0] != KVSI_IGSM_ANSWER)
        return 0;
    *right = kvsi_igsm_read_number(r->words, r->line[1]) ==
             r->problem->parameters[r->problem->asked].value;
    return 1;
}

void kvsi_igsm_grade(kvs_igsm_grade *out, const kvsi_igsm_words *words,
                     const kvsi_igsm_problem *problem, const uint16_t *written, size_t count,
                     int ended)
{
    const int wanted = problem->parameters[problem->asked].value;
    reader r = {.words = words, .problem = problem};
    size_t step = 0;
    int answered = words->mode == KVSI_IGSM_PAPER, all_right = ended;

    r.letters = (kvsi_igsm_letters){.choose = choose_written, .user = &r};
    *out = (kvs_igsm_grade){.asked_missing = 1};
    for (size_t at = 0; at <= count; at += r.count + 1) {
        int index, right;

        r.line = written + at;
        for (r.count = 0; at + r.count < count && r.line[r.count] != KVSI_IGSM_LINE;)
            r.count++;
        if (is_answer(&r, &right)) {
            all_right &= right && !answered && at + r.count == count;
            answered = 1;
            continue;
        }
        index = kvsi_igsm_read_parameter(words, problem, r.line, r.count);
        if (index == (int)problem->asked) {
            right = last_number(words, r.line, r.count) == wanted;
            out->first_right |= out->asked_missing && right;
            out->solved |= right;
            out->asked_missing = 0;
        }
        all_right &= index >= 0 && step_is_right(&r, (size_t)index, step);
        step++;
    }
    out->strict = all_right && answered && step == problem->solved_count;
}
