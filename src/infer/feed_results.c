/* Results for each token of a feed: log-probabilities and best tokens.
 *
 * Rows of the batch whose results are wanted go through the head, in slices that fit the planned
 * memory: first those with a target, then those that predict a fed token, then those whose best
 * tokens are wanted.  The bits of a result depend on the pass that computed the row
 * (kvsi_pass_has_many), not on the rows that share the head with it. */
#include "base/math.h"
#include "infer/session.h"

#include <math.h>

/* Position in its session of the token of a row. */
static size_t position_of(const kvs_runner *r, size_t part, size_t row)
{
    return r->states[part]->length - (r->starts[part + 1] - row);
}

/* Index of a position among the tokens of a feed. */
static size_t index_in_feed(const kvs_feed *feed, size_t position)
{
    return position - (feed->session->goal - feed->count);
}

/* The part that a row belongs to, which is `part` or a later one. */
static size_t part_of(const kvs_runner *r, size_t part, size_t row)
{
    while (row >= r->starts[part + 1])
        part++;
    return part;
}

/* ---- targets and likeliest tokens ---- */

static kvs_status score_targets(kvs_runner *r, kvs_err *err)
{
    const kvsi_pass *p = r->pass;

    if (p->head_rows == 0)
        return KVS_OK;
    TRY(kvsi_pass_loss(r->pass, NULL, NULL, err));
    for (size_t i = 0, part = 0; i < p->head_rows; i++) {
        const size_t row = (size_t)p->host_rows[i];
        const kvs_feed *feed;
        size_t index;

        part = part_of(r, part, row);
        feed = &r->feeds[part];
        index = index_in_feed(feed, position_of(r, part, row));
        if (feed->logprobs && feed->targets && feed->targets[index] >= 0)
            feed->logprobs[index] = -(double)p->host_losses[i];
        if (feed->best)
            feed->best[index] = p->host_guesses[i];
    }
    return KVS_OK;
}

/* ---- the fed tokens themselves ---- */

/* The last rows of the sessions in r->states predict the first tokens of r->feeds. */
static kvs_status score_first_of_batch(kvs_runner *r, int many, kvs_err *err)
{
    for (size_t i = 0; i < r->parts; i++) {
        r->rows[i] = (int32_t)i;
        r->row_targets[i] = r->feeds[i].ids[0];
    }
    kvsi_pass_load_last(r->pass, r->states, r->parts);
    TRY(kvsi_pass_score(r->pass, r->rows, r->row_targets, r->parts, many, err));
    for (size_t i = 0; i < r->parts; i++)
        r->feeds[i].own_logprobs[0] = -(double)r->pass->host_losses[i];
    r->parts = 0;
    return KVS_OK;
}

/* Sessions whose last token was in a pass of many tokens, or those of the others. */
static kvs_status score_first_of(kvs_runner *r, const kvsi_feed_list *feeds, int many, kvs_err *err)
{
    const size_t sequences = r->pass->limits.sequences;
    const size_t most = many ? sequences : kvsi_min(sequences, KVSI_FEW_ROWS);

    r->parts = 0;
    for (size_t f = 0; f < feeds->count; f++) {
        const kvs_feed feed = kvsi_feed_at(feeds, f);

        if (!feed.own_logprobs || feed.count == 0)
            continue;
        if (feed.session->state.length == 0) {
            feed.own_logprobs[0] = NAN;
            continue;
        }
        if (!feed.session->state.last_of_many != !many)
            continue;
        r->feeds[r->parts] = feed;
        r->states[r->parts++] = &feed.session->state;
        if (r->parts == most)
            TRY(score_first_of_batch(r, many, err));
    }
    return r->parts > 0 ? score_first_of_batch(r, many, err) : KVS_OK;
}

kvs_status kvsi_score_first(kvs_runner *runner, const kvsi_feed_list *feeds, kvs_err *err)
{
    TRY(score_first_of(runner, feeds, 0, err));
    return score_first_of(runner, feeds, 1, err);
}

/* Each row predicts the next token, if that is fed in the same call. */
static kvs_status score_own(kvs_runner *r, kvs_err *err)
{
    size_t count = 0, i = 0;

    for (size_t part = 0; part < r->parts; part++)
        for (size_t row = r->starts[part]; r->feeds[part].own_logprobs && row < r->starts[part + 1];
             row++) {
            const kvs_session *s = r->feeds[part].session;
            const size_t next = position_of(r, part, row) + 1;

            if (next < s->goal) {
                r->rows[count] = (int32_t)row;
                r->row_targets[count++] = s->ids[next];
            }
        }
    if (count == 0)
        return KVS_OK;
    TRY(kvsi_pass_score(r->pass, r->rows, r->row_targets, count, kvsi_pass_has_many(r->pass), err));
    for (size_t part = 0; i < count; i++) {
        const kvs_feed *feed;

        part = part_of(r, part, (size_t)r->rows[i]);
        feed = &r->feeds[part];
        feed->own_logprobs[index_in_feed(feed, position_of(r, part, (size_t)r->rows[i]) + 1)] =
            -(double)r->pass->host_losses[i];
    }
    return KVS_OK;
}

/* ---- the best tokens ---- */

/* Copies the `found` best tokens after a row; a feed may want fewer, or more than there are. */
static void copy_top(const kvs_feed *feed, size_t index, const int32_t *ids, const real *logprobs,
                     size_t found)
{
    for (size_t i = 0; i < feed->top; i++) {
        feed->top_ids[index * feed->top + i] = i < found ? ids[i] : -1;
        if (feed->top_logprobs)
            feed->top_logprobs[index * feed->top + i] = i < found ? (double)logprobs[i] : -INFINITY;
    }
}

static kvs_status find_top(kvs_runner *r, kvs_err *err)
{
    const kvsi_pass *p = r->pass;
    size_t count = 0, top = 0, slice;

    for (size_t part = 0; part < r->parts; part++) {
        top = kvsi_max(top, r->feeds[part].top);
        for (size_t row = r->starts[part]; r->feeds[part].top > 0 && row < r->starts[part + 1];
             row++)
            r->rows[count++] = (int32_t)row;
    }
    if (count == 0)
        return KVS_OK;
    top = kvsi_min(top, kvsi_pass_logit_count(&r->model->config));
    slice = kvsi_min(p->limits.top / top, p->limits.head_rows);
    for (size_t at = 0, part = 0; at < count; at += slice) {
        const size_t now = kvsi_min(slice, count - at);

        TRY(kvsi_pass_top(r->pass, r->rows + at, now, top, kvsi_pass_has_many(p), err));
        for (size_t i = 0; i < now; i++) {
            const size_t row = (size_t)r->rows[at + i];

            part = part_of(r, part, row);
            copy_top(&r->feeds[part], index_in_feed(&r->feeds[part], position_of(r, part, row)),
                     p->host_top_ids + i * top, p->host_top_logprobs + i * top, top);
        }
    }
    return KVS_OK;
}

kvs_status kvsi_score_batch(kvs_runner *runner, kvs_err *err)
{
    TRY(score_targets(runner, err));
    TRY(score_own(runner, err));
    return find_top(runner, err);
}
