/* The induction task: distinct tokens x_0 .. x_{M-1}, then one of them again; the target is the
 * token that followed it the first time.
 *
 *     input    x_0  x_1  ...  x_{M-1}  x_i          0 <= i <= M-2
 *     target                           x_{i+1}
 *
 * The paper draws tokens from a pool of T, never the same one twice in a row, until one repeats.
 * After m tokens, the next draw is one of the m-1 that repeat, or of the T-m new ones, so
 *
 *     P(M > m) = prod_{j=1..m} (1 - (j-1)/(T-1))
 *
 * and, by symmetry, the tokens are any M distinct ones and i is any of 0 .. M-2.  The direct
 * sampler draws M and i from these distributions.  Both samplers keep M <= longest by
 * renormalizing. */
#include "base/memory.h"
#include "config/config.h"
#include "data/tasks/tasks.h"

enum {
    FIRST_TOKEN = 11,        /* 0 is padding and 1 .. 10 are unused in the paper */
    SHORTEST = 2,            /* the smallest M: two tokens must exist before one can repeat */
    LONGEST_LIMIT = 1 << 20, /* bounds the table; M is about sqrt(pool) */
};

/* If fewer sequences than this are short enough, redrawing would take too long. */
static const double KEPT_SHARE_MIN = 1e-6;

typedef struct induction_task {
    kvs_data base;
    kvsi_induction_config config;
    size_t longest;     /* largest M */
    double *cumulative; /* (longest + 1): P(M <= m) at m */
} induction_task;

/* ---- drawing --------------------------------------------------------------------------------- */

/* The index of `value` among the first `count`, or `count`.  Linear, because M is about 30. */
static size_t find(const int32_t *values, size_t count, int32_t value)
{
    size_t i = 0;

    while (i < count && values[i] != value)
        i++;
    return i;
}

static void draw_distinct_tokens(const induction_task *task, kvsi_random *random, int32_t *ids,
                                 size_t count)
{
    const uint32_t tokens = (uint32_t)(task->config.vocab - FIRST_TOKEN);

    for (size_t placed = 0; placed < count;) {
        ids[placed] = FIRST_TOKEN + (int32_t)kvsi_random_below(random, tokens);
        if (find(ids, placed, ids[placed]) == placed)
            placed++;
    }
}

/* Both samplers write M distinct tokens to `ids`, return M, and set which token repeats. */
static size_t sample_direct(const induction_task *task, kvsi_random *random, int32_t *ids,
                            size_t *source)
{
    const double u = kvsi_random_uniform(random);
    size_t low = SHORTEST, high = task->longest;

    while (low < high) { /* the first m with u < P(M <= m) */
        const size_t middle = low + (high - low) / 2;

        if (u < task->cumulative[middle])
            high = middle;
        else
            low = middle + 1;
    }
    draw_distinct_tokens(task, random, ids, low);
    *source = kvsi_random_below(random, (uint32_t)(low - 1));
    return low;
}

/* The paper's procedure on indices 0 .. pool-1.  A shuffled pool has distinct tokens in uniform
 * order, so tokens can be assigned afterwards to the indices that were used. */
static size_t sample_paper(const induction_task *task, kvsi_random *random, int32_t *ids,
                           size_t *source)
{
    const uint32_t pool = (uint32_t)task->config.pool;
    size_t count = 0;

    for (;;) {
        const int32_t place = (int32_t)kvsi_random_below(random, pool);

        if (count > 0 && place == ids[count - 1])
            continue;
        *source = find(ids, count, place);
        if (*source < count)
            break;
        if (count == task->longest) /* no repeat within the maximum length: start again */
            count = 0;
        else
            ids[count++] = place;
    }
    draw_distinct_tokens(task, random, ids, count);
    return count;
}

static kvs_status draw(size_t *length, const kvs_data *base, kvsi_random *random, int32_t *ids,
                       int32_t *targets, uint8_t *scored, kvs_err *err)
{
    const induction_task *task = (const induction_task *)base;
    size_t source, last;

    (void)err;
    if (task->config.sampler == KVSI_INDUCTION_DIRECT)
        last = sample_direct(task, random, ids, &source);
    else
        last = sample_paper(task, random, ids, &source);
    ids[last] = ids[source];
    for (size_t i = 0; i < last; i++) {
        targets[i] = task->config.loss == KVSI_LOSS_ALL ? ids[i + 1] : -1;
        scored[i] = 0;
    }
    targets[last] = ids[source + 1];
    scored[last] = 1;
    *length = last + 1;
    return KVS_OK;
}

/* ---- creation -------------------------------------------------------------------------------- */

static json_t *describe(const kvs_data *base)
{
    const kvsi_induction_config *c = &((const induction_task *)base)->config;
    json_t *object =
        json_pack("{s:s, s:I}", "name", base->ops->name, "vocab", (json_int_t)c->vocab);

    kvsi_settings_to_json(object, &kvsi_induction_settings, c, KVSI_RESULT);
    return object;
}

static void release(kvs_data *base)
{
    kvsi_free(((induction_task *)base)->cumulative);
    kvsi_free(base);
}

static const kvsi_data_ops induction_ops = {
    .name = "induction", .draw = draw, .describe = describe, .release = release};

static kvs_status check(const kvsi_induction_config *c, kvs_err *err)
{
    TRY(kvsi_settings_check(&kvsi_induction_settings, c, err));
    if (c->vocab > INT32_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "induction vocabulary is '%zu', expected at most %d",
                         c->vocab, INT32_MAX);
    if (c->vocab < FIRST_TOKEN || c->vocab - FIRST_TOKEN < c->pool)
        return kvsi_fail(err, KVS_E_INVALID,
                         "induction vocabulary '%zu' is too small for a pool of '%zu', expected a "
                         "vocabulary of at least pool + %d",
                         c->vocab, c->pool, FIRST_TOKEN);
    if (c->pool > LONGEST_LIMIT && c->max_length - 2 > LONGEST_LIMIT)
        return kvsi_fail(err, KVS_E_LIMIT,
                         "induction max length is '%zu', expected at most %d with a pool of '%zu'",
                         c->max_length, LONGEST_LIMIT + 2, c->pool);
    return KVS_OK;
}

/* Fills the table and returns P(M <= longest) before renormalizing.  Extended precision, because
 * the first entries are small differences from 1; the last entry is exactly 1. */
static double tabulate(induction_task *task)
{
    const long double others = (long double)(task->config.pool - 1);
    long double beyond = 1; /* P(M > m) */
    double kept;

    for (size_t m = SHORTEST; m <= task->longest; m++) {
        beyond *= 1 - (long double)(m - 1) / others;
        task->cumulative[m] = (double)(1 - beyond);
    }
    kept = task->cumulative[task->longest];
    for (size_t m = SHORTEST; m <= task->longest; m++)
        task->cumulative[m] /= kept;
    return kept;
}

/* Short, medium and long M; buckets without sequences are omitted. */
static void set_buckets(induction_task *task)
{
    static const size_t ends[] = {16, 40, SIZE_MAX};
    kvs_data *base = &task->base;
    size_t from = SHORTEST;

    for (size_t i = 0; i < sizeof ends / sizeof *ends && from <= task->longest; i++) {
        const size_t to = ends[i] < task->longest ? ends[i] : task->longest;

        base->bucket[base->buckets++] = (kvs_length_bucket){.from = from + 1, .to = to + 1};
        from = to + 1;
    }
}

/* The mean input length: E[M] + 1, with E[M] = sum of P(M > m). */
static double mean_tokens(const induction_task *task)
{
    double mean = SHORTEST + 1;

    for (size_t m = SHORTEST; m < task->longest; m++)
        mean += 1 - task->cumulative[m];
    return mean;
}

kvs_status kvsi_induction_create(kvs_data **out, const kvsi_induction_config *config, kvs_err *err)
{
    kvs_status st = KVS_OK;
    induction_task *task = NULL;
    double kept;

    *out = NULL;
    TRY_OUT(check(config, err));
    task = kvsi_alloc(1, sizeof *task);
    if (!task) {
        st = kvsi_no_memory(err, "the induction task");
        goto out;
    }
    task->config = *config;
    task->longest = config->pool < config->max_length - 2 ? config->pool : config->max_length - 2;
    task->base =
        (kvs_data){.ops = &induction_ops, .vocab = config->vocab, .max_tokens = task->longest + 1};
    task->cumulative = kvsi_alloc(task->longest + 1, sizeof *task->cumulative);
    if (!task->cumulative) {
        st = kvsi_no_memory(err, "lengths up to %zu", task->longest);
        goto out;
    }
    kept = tabulate(task);
    if (config->sampler == KVSI_INDUCTION_PAPER && kept < KEPT_SHARE_MIN) {
        st = kvsi_fail(err, KVS_E_LIMIT,
                       "the paper's sampler would keep %.1g of its sequences at max length '%zu' "
                       "and pool '%zu', use the direct one",
                       kept, config->max_length, config->pool);
        goto out;
    }
    task->base.mean_tokens = mean_tokens(task);
    set_buckets(task);
    *out = &task->base;
    task = NULL;
out:
    if (task)
        release(&task->base);
    return st;
}
