/* The n-gram task: memorize a fixed table of triples.
 *
 *     input    x1  x2          pair number (i mod pairs) of the table, for sequence number i
 *     target       x3          determined only by both
 *
 * The fewer letters, the more pairs share an x2, and the less x2 alone determines x3.  The best
 * accuracy without x1 is a property of the table and is stored with it. */
#include "base/memory.h"
#include "config/config.h"
#include "data/tasks/tasks.h"

#include <math.h>
#include <stdlib.h>

typedef struct triple {
    int32_t x1, x2, x3;
} triple;

typedef struct ngram_task {
    kvs_data base;
    kvsi_ngram_config config;
    triple *table; /* [pairs] */
    double ceiling;
} ngram_task;

/* ---- drawing --------------------------------------------------------------------------------- */

static kvs_status draw(size_t *length, const kvs_data *base, kvsi_random *random, int32_t *ids,
                       int32_t *targets, uint8_t *scored, kvs_err *err)
{
    const ngram_task *task = (const ngram_task *)base;
    const triple *t = &task->table[random->index % task->config.pairs];

    (void)err;
    ids[0] = t->x1;
    ids[1] = t->x2;
    targets[0] = -1;
    targets[1] = t->x3;
    scored[0] = 0;
    scored[1] = 1;
    *length = 2;
    return KVS_OK;
}

static json_t *describe(const kvs_data *base)
{
    const ngram_task *task = (const ngram_task *)base;
    json_t *object = kvsi_task_describe(base, &kvsi_ngram_settings, &task->config);

    json_object_set_new(object, "seed", json_integer((json_int_t)task->config.seed));
    json_object_set_new(object, "x2_only_ceiling", json_real(task->ceiling));
    return object;
}

static void release(kvs_data *base)
{
    kvsi_free(((ngram_task *)base)->table);
    kvsi_free(base);
}

static const kvsi_data_ops ngram_ops = {
    .name = "ngram", .draw = draw, .describe = describe, .release = release};

double kvs_ngram_ceiling(const kvs_data *task)
{
    return task && task->ops == &ngram_ops ? ((const ngram_task *)task)->ceiling : NAN;
}

/* ---- creation -------------------------------------------------------------------------------- */

static kvs_status check(const kvsi_ngram_config *c, kvs_err *err)
{
    TRY(kvsi_settings_check(&kvsi_ngram_settings, c, err));
    if (c->pairs > c->alphabet * c->alphabet)
        return kvsi_fail(err, KVS_E_INVALID,
                         "ngram pairs is '%zu', expected at most %zu: an alphabet of '%zu' has no "
                         "more distinct pairs",
                         c->pairs, c->alphabet * c->alphabet, c->alphabet);
    if (c->seed > INT64_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "ngram seed is '%llu', expected at most %lld",
                         (unsigned long long)c->seed, (long long)INT64_MAX);
    return KVS_OK;
}

/* Draws pairs until one is new; `taken` has a mark per possible pair. */
static triple draw_triple(const kvsi_ngram_config *c, uint64_t number, uint8_t *taken)
{
    const uint32_t alphabet = (uint32_t)c->alphabet;
    kvsi_random random;
    uint32_t pair;

    kvsi_random_init(&random, c->seed, KVSI_RANDOM_DATA, number);
    do
        pair = kvsi_random_below(&random, alphabet * alphabet);
    while (taken[pair]);
    taken[pair] = 1;
    return (triple){
        .x1 = (int32_t)(pair / alphabet),
        .x2 = (int32_t)(pair % alphabet),
        .x3 = (int32_t)(alphabet + kvsi_random_below(&random, (uint32_t)c->answers)),
    };
}

static int compare_x2_x3(const void *left, const void *right)
{
    const triple *a = left, *b = right;

    return a->x2 != b->x2 ? (a->x2 > b->x2) - (a->x2 < b->x2) : (a->x3 > b->x3) - (a->x3 < b->x3);
}

/* For each x2 the best guess is its most frequent x3.  `table` is sorted by x2, then x3. */
static double ceiling_of(const triple *table, size_t pairs)
{
    size_t right = 0;

    for (size_t at = 0; at < pairs;) {
        const int32_t x2 = table[at].x2;
        size_t most = 0;

        while (at < pairs && table[at].x2 == x2) {
            const size_t from = at;

            while (at < pairs && compare_x2_x3(&table[at], &table[from]) == 0)
                at++;
            most = at - from > most ? at - from : most;
        }
        right += most;
    }
    return (double)right / (double)pairs;
}

static kvs_status fill(ngram_task *task, kvs_err *err)
{
    const kvsi_ngram_config *c = &task->config;
    uint8_t *taken = kvsi_alloc(c->alphabet * c->alphabet, sizeof *taken);
    triple *sorted = kvsi_alloc(c->pairs, sizeof *sorted);
    kvs_status st = KVS_OK;

    task->table = kvsi_alloc(c->pairs, sizeof *task->table);
    if (!taken || !sorted || !task->table) {
        st = kvsi_no_memory(err, "%zu pairs of %zu letters", c->pairs, c->alphabet);
        goto out;
    }
    for (size_t i = 0; i < c->pairs; i++)
        sorted[i] = task->table[i] = draw_triple(c, i, taken);
    qsort(sorted, c->pairs, sizeof *sorted, compare_x2_x3);
    task->ceiling = ceiling_of(sorted, c->pairs);
out:
    kvsi_free(taken);
    kvsi_free(sorted);
    return st;
}

kvs_status kvsi_ngram_create(kvs_data **out, const kvsi_ngram_config *config, kvs_err *err)
{
    kvs_status st = KVS_OK;
    ngram_task *task = NULL;

    *out = NULL;
    TRY_OUT(check(config, err));
    task = kvsi_alloc(1, sizeof *task);
    if (!task) {
        st = kvsi_no_memory(err, "the n-gram task");
        goto out;
    }
    task->config = *config;
    task->base = (kvs_data){.ops = &ngram_ops,
                            .vocab = config->alphabet + config->answers,
                            .max_tokens = 2,
                            .mean_tokens = 2};
    TRY_OUT(fill(task, err));
    *out = &task->base;
    task = NULL;
out:
    if (task)
        release(&task->base);
    return st;
}
