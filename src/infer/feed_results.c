/* Results for each token of a feed: log-probabilities and best tokens.
 *
 * After each pass, the rows whose results are wanted go through the head in three calls: rows with
 * a target, rows that predict a fed token, and rows whose best tokens are wanted.  The bits of a
 * result depend on the number of tokens in the pass that computed its row (kvsi_pass_has_many), and
 * not on the other rows that go through the head. */
#include "base/math.h"
#include "infer/session.h"

#include <math.h>

/* Returns the position of a row's token in its session. */
static size_t position_of(const kvs_runner *r, size_t part, size_t row)
{
    return r->states[part]->length - (r->starts[part + 1] - row);
}

/* Returns the part of the batch that a row belongs to.  It must be `part` or a later one. */
static size_t part_of(const kvs_runner *r, size_t part, size_t row)
{
    while (row >= r->starts[part + 1])
        part++;
    return part;
}

/* ---- log-probabilities of targets, and the likeliest token ---- */

/* Fills in `logprobs` and `best` of the feeds. */
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
        index = kvsi_index_in_feed(feed, position_of(r, part, row));
        if (feed->logprobs && feed->targets && feed->targets[index] >= 0)
            feed->logprobs[index] = -(double)p->host_losses[i];
        if (feed->best)
            feed->best[index] = p->host_guesses[i];
    }
    return KVS_OK;
}

/* ---- log-probabilities of the fed tokens ---- */

/* Scores the first token of each of r->feeds with the last row of its session. */
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

/* Scores the first token of the feeds whose session's last row was computed in a pass of many
 * tokens, if `many`, or in a smaller pass. */
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

/* Scores all fed tokens but the first of each feed.  A token is scored with the row before it. */
static kvs_status score_own(kvs_runner *r, kvs_err *err)
{
    size_t count = 0, i = 0;

    for (size_t part = 0; part < r->parts; part++) {
        const kvs_session *s = r->feeds[part].session;

        if (!r->feeds[part].own_logprobs)
            continue;
        for (size_t row = r->starts[part]; row < r->starts[part + 1]; row++) {
            const size_t next = position_of(r, part, row) + 1;

            if (next < s->goal) {
                r->rows[count] = (int32_t)row;
                r->row_targets[count++] = s->ids[next];
            }
        }
    }
    if (count == 0)
        return KVS_OK;
    TRY(kvsi_pass_score(r->pass, r->rows, r->row_targets, count, kvsi_pass_has_many(r->pass), err));
    for (size_t part = 0; i < count; i++) {
        const kvs_feed *feed;

        part = part_of(r, part, (size_t)r->rows[i]);
        feed = &r->feeds[part];
        feed->own_logprobs[kvsi_index_in_feed(feed, position_of(r, part, (size_t)r->rows[i]) + 1)] =
            -(double)r->pass->host_losses[i];
    }
    return KVS_OK;
}

/* ---- the best tokens ---- */

/* Copies the `found` best tokens after a row to index `index` of a feed.  If the feed wants fewer,
 * the rest is left out; if it wants more, they become -1. */
static void copy_top(const kvs_feed *feed, size_t index, const int32_t *ids, const real *logprobs,
                     size_t found)
{
    for (size_t i = 0; i < feed->top; i++) {
        feed->top_ids[index * feed->top + i] = i < found ? ids[i] : -1;
        if (feed->top_logprobs)
            feed->top_logprobs[index * feed->top + i] = i < found ? (double)logprobs[i] : -INFINITY;
    }
}

/* Finds the best tokens after each row, in slices of rows that fit limits.top. */
static kvs_status find_top(kvs_runner *r, kvs_err *err)
{
    const kvsi_pass *p = r->pass;
    size_t count = 0, top = 0, slice;

    for (size_t part = 0; part < r->parts; part++) {
        if (r->feeds[part].top == 0)
            continue;
        top = kvsi_max(top, r->feeds[part].top);
        for (size_t row = r->starts[part]; row < r->starts[part + 1]; row++)
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
            copy_top(&r->feeds[part],
                     kvsi_index_in_feed(&r->feeds[part], position_of(r, part, row)),
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
