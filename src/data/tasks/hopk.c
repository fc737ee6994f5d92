/* The hop-k task: k-hop induction heads.
 *
 *     input    k      x_0  x_1  ...  x_{n-1}       letters, no two adjacent ones equal
 *     target   blank  y_0  y_1  ...  y_{n-1}       of the same position, not the next
 *
 * One hop from position p goes to the position after the last earlier occurrence of its letter: to
 * q + 1 for the largest q < p with x_q = x_p.  y_i is the letter k hops from position i, or "none"
 * if a hop fails.  No two positions hop to the same one, and none hops to position 0, so if all
 * letters occur, (letters - 1) k + 1 targets are "none". */
#include "base/memory.h"
#include "config/config.h"
#include "data/tasks/tasks.h"

#include <stdio.h>

enum { LETTERS_MAX = 64 }; /* as in config/tasks.c */

typedef struct hopk_task {
    kvs_data base;
    kvsi_hopk_config config;
} hopk_task;

/* ---- ids ------------------------------------------------------------------------------------- */

static int32_t letter_id(const kvsi_hopk_config *c, size_t letter)
{
    return (int32_t)(c->hops + 1 + letter);
}

static int32_t none_id(const kvsi_hopk_config *c)
{
    return letter_id(c, c->letters);
}

static int32_t blank_id(const kvsi_hopk_config *c)
{
    return none_id(c) + 1;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void draw_letters(int32_t *ids, const kvsi_hopk_config *c, kvsi_random *random)
{
    size_t letter = kvsi_random_below(random, (uint32_t)c->letters);

    for (size_t i = 0; i < c->length; i++) {
        ids[i] = letter_id(c, letter);
        letter = (letter + 1 + kvsi_random_below(random, (uint32_t)(c->letters - 1))) % c->letters;
    }
}

/* next[p] = the position one hop from p, -1 = none. */
static void find_hops(int32_t *next, const int32_t *ids, const kvsi_hopk_config *c)
{
    int32_t last[LETTERS_MAX];

    for (size_t letter = 0; letter < c->letters; letter++)
        last[letter] = -1;
    for (size_t p = 0; p < c->length; p++) {
        int32_t *seen = &last[ids[p] - letter_id(c, 0)];

        next[p] = *seen < 0 ? -1 : *seen + 1;
        *seen = (int32_t)p;
    }
}

static int32_t answer_at(size_t i, size_t hops, const int32_t *next, const int32_t *ids,
                         const kvsi_hopk_config *c)
{
    int32_t p = (int32_t)i;

    for (size_t hop = 0; hop < hops && p >= 0; hop++)
        p = next[p];
    return p < 0 ? none_id(c) : ids[p];
}

/* The targets array holds the hops until the targets overwrite them, from the end, since hops only
 * go back. */
static kvs_status draw(size_t *length, const kvs_data *base, kvsi_random *random, int32_t *ids,
                       int32_t *targets, uint8_t *scored, kvs_err *err)
{
    const kvsi_hopk_config *c = &((const hopk_task *)base)->config;
    size_t hops;

    (void)err;
    if (c->sequences > 0 && random->purpose == KVSI_RANDOM_DATA)
        kvsi_random_init(random, random->seed, KVSI_RANDOM_DATA, random->index % c->sequences);
    hops = kvsi_random_below(random, (uint32_t)(c->hops + 1));
    if (c->only != KVSI_HOPS_ALL)
        hops = c->only;
    ids[0] = (int32_t)hops;
    draw_letters(ids + 1, c, random);
    find_hops(targets + 1, ids + 1, c);
    for (size_t i = c->length; i-- > 0;) {
        targets[1 + i] = answer_at(i, hops, targets + 1, ids + 1, c);
        scored[1 + i] = targets[1 + i] != none_id(c);
    }
    targets[0] = blank_id(c);
    scored[0] = 0;
    *length = c->length + 1;
    return KVS_OK;
}

/* ---- creation -------------------------------------------------------------------------------- */

static void word(const kvs_data *base, int32_t id, char *out, size_t size)
{
    const kvsi_hopk_config *c = &((const hopk_task *)base)->config;
    const int32_t letter = id - letter_id(c, 0);

    if (letter < 0)
        snprintf(out, size, "%d", (int)id);
    else if (id == none_id(c))
        snprintf(out, size, "none");
    else if (id == blank_id(c))
        snprintf(out, size, "blank");
    else if (letter < 26)
        snprintf(out, size, "%c", 'a' + (int)letter);
    else
        snprintf(out, size, "letter%d", (int)letter);
}

static json_t *describe(const kvs_data *base)
{
    return kvsi_task_describe(base, &kvsi_hopk_settings, &((const hopk_task *)base)->config);
}

static void release(kvs_data *base)
{
    kvsi_free(base);
}

static const kvsi_data_ops hopk_ops = {
    .name = "hopk", .draw = draw, .word = word, .describe = describe, .release = release};

static kvs_status check(const kvsi_hopk_config *c, kvs_err *err)
{
    TRY(kvsi_settings_check(&kvsi_hopk_settings, c, err));
    /* A hop goes at least one position back, and never to position 0. */
    if (c->hops > 0 && c->hops + 2 > c->length)
        return kvsi_fail(err, KVS_E_INVALID,
                         "hop-k hops is '%zu', but a string of length %zu allows at most %zu",
                         c->hops, c->length, c->length > 2 ? c->length - 2 : 0);
    if (c->only != KVSI_HOPS_ALL && c->only > c->hops)
        return kvsi_fail(err, KVS_E_INVALID, "hop-k with '%zu' hops only, expected at most %zu",
                         c->only, c->hops);
    return KVS_OK;
}

kvs_status kvsi_hopk_create(kvs_data **out, const kvsi_hopk_config *config, kvs_err *err)
{
    hopk_task *task;

    *out = NULL;
    TRY(check(config, err));
    task = kvsi_alloc(1, sizeof *task);
    if (!task)
        return kvsi_no_memory(err, "the hop-k task");
    task->config = *config;
    task->base = (kvs_data){.ops = &hopk_ops,
                            .vocab = (size_t)blank_id(config) + 1,
                            .max_tokens = config->length + 1,
                            .mean_tokens = (double)(config->length + 1)};
    *out = &task->base;
    return KVS_OK;
}
