/* Many sequences in one pass: parts of the pending tokens of all feeds form a ragged batch, up to
 * the planned number of tokens, until nothing is left. */
#include "base/math.h"
#include "base/memory.h"
#include "base/sized.h"
#include "infer/session.h"

#include <stdio.h>
#include <string.h>

enum { TOKENS_DEFAULT = 256, TOKENS_MAX = 1 << 24 };

/* Memory is planned for this many best tokens per row of the largest pass.  If a feed wants more,
 * the rows are handled in several slices. */
enum { TOP_PLANNED = 16 };

/* ---- the handle ---- */

static kvs_status allocate(kvs_runner *r, const kvsi_pass_limits *limits, kvs_err *err)
{
    const size_t logits = kvsi_pass_logit_count(&r->model->config);
    const kvsi_context *c = &r->model->context;

    TRY(kvsi_pass_create(&r->pass, r->model, limits, err));
    r->logits = c->ops->alloc(c, limits->sequences * logits * sizeof *r->logits);
    r->outputs = kvsi_alloc(limits->sequences, sizeof(float *));
    r->feeds = kvsi_alloc(limits->sequences, sizeof *r->feeds);
    r->rows = kvsi_alloc(limits->tokens, sizeof *r->rows);
    r->row_targets = kvsi_alloc(limits->tokens, sizeof *r->row_targets);
    r->states = kvsi_alloc(limits->sequences, sizeof *r->states);
    r->starts = kvsi_alloc(limits->sequences + 1, sizeof *r->starts);
    r->ids = kvsi_alloc(limits->tokens, sizeof *r->ids);
    r->targets = kvsi_alloc(limits->tokens, sizeof *r->targets);
    if (!r->logits || !r->outputs || !r->feeds || !r->states || !r->starts || !r->ids ||
        !r->targets || !r->rows || !r->row_targets)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a runner of %zu sequences",
                         limits->sequences);
    return KVS_OK;
}

static const kvs_runner_options defaults = {.size = sizeof defaults};

void kvs_runner_options_init(kvs_runner_options *options, size_t size)
{
    kvsi_sized_init(options, size, &defaults, sizeof defaults);
}

void kvs_feed_init(kvs_feed *feed, size_t size)
{
    const kvs_feed empty = {.size = sizeof empty};

    kvsi_sized_init(feed, size, &empty, sizeof empty);
}

kvs_status kvs_runner_create(kvs_runner **out, const kvs_model *model,
                             const kvs_runner_options *options, kvs_err *err)
{
    kvs_runner_options o = defaults;
    kvsi_pass_limits limits = {0};
    kvs_runner *r;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED(model);
    TRY(kvsi_sized_read(&o, sizeof o, options, "kvs_runner_options", err));
    limits.sequences = o.sequences > 0 ? o.sequences : 1;
    limits.tokens = o.tokens > 0 ? o.tokens : kvsi_max(limits.sequences, TOKENS_DEFAULT);
    if (limits.tokens > TOKENS_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "a runner of %zu tokens, expected at most %d",
                         limits.tokens, (int)TOKENS_MAX);
    if (limits.tokens < limits.sequences)
        return kvsi_fail(err, KVS_E_INVALID,
                         "a runner of %zu sequences and %zu tokens, expected at least as many "
                         "tokens as sequences",
                         limits.sequences, limits.tokens);
    r = kvsi_alloc(1, sizeof *r);
    if (!r)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a runner");
    r->model = model;
    limits.head_rows = limits.tokens;
    limits.top = kvsi_max(kvs_model_logit_count(model), TOP_PLANNED * limits.tokens);
    TRY_OUT(allocate(r, &limits, err));
    *out = r;
    r = NULL;
out:
    kvs_runner_free(r);
    return st;
}

void kvs_runner_free(kvs_runner *runner)
{
    if (!runner)
        return;
    runner->model->context.ops->release(&runner->model->context, runner->logits);
    kvsi_pass_free(runner->pass);
    kvsi_free(runner->outputs);
    kvsi_free(runner->feeds);
    kvsi_free(runner->states);
    kvsi_free(runner->starts);
    kvsi_free(runner->ids);
    kvsi_free(runner->targets);
    kvsi_free(runner->rows);
    kvsi_free(runner->row_targets);
    kvsi_free(runner);
}

/* ---- checks ---- */

/* Checks one feed.  `who` is the start of the message: empty, or the sequence. */
static kvs_status check_feed(const kvs_feed *feed, const char *who, kvs_err *err)
{
    const kvs_session *s = feed->session;
    const size_t vocab = s->state.model->config.vocab;

    if (feed->count > 0 && !feed->ids)
        return kvsi_fail(err, KVS_E_INVALID, "%sids is NULL", who);
    if (feed->top > 0 && !feed->top_ids)
        return kvsi_fail(err, KVS_E_INVALID, "%stop_ids is NULL", who);
    if (feed->count > s->state.capacity - s->state.length)
        return kvsi_fail(err, KVS_E_LIMIT, "%s%zu tokens do not fit: %zu of %zu are taken", who,
                         feed->count, s->state.length, s->state.capacity);
    for (size_t i = 0; i < feed->count; i++) {
        if (feed->ids[i] < 0 || (size_t)feed->ids[i] >= vocab)
            return kvsi_fail(err, KVS_E_INVALID, "%stoken %zu is id %d, expected 0 to %zu", who, i,
                             (int)feed->ids[i], vocab - 1);
        if (feed->targets && feed->targets[i] >= 0 && (size_t)feed->targets[i] >= vocab)
            return kvsi_fail(err, KVS_E_INVALID, "%starget %zu is id %d, expected at most %zu", who,
                             i, (int)feed->targets[i], vocab - 1);
    }
    return KVS_OK;
}

kvs_feed kvsi_feed_at(const kvsi_feed_list *feeds, size_t index)
{
    kvs_feed feed = {0};

    memcpy(&feed, (const unsigned char *)feeds->at + index * feeds->size,
           kvsi_min(feeds->size, sizeof feed));
    return feed;
}

/* Checks the `size` of one feed.  All feeds must have that of the first, which is the distance
 * between feeds. */
static kvs_status check_size(const kvsi_feed_list *feeds, size_t index, kvs_err *err)
{
    const void *at = (const unsigned char *)feeds->at + index * feeds->size;
    kvs_feed feed;

    TRY(kvsi_sized_read(&feed, sizeof feed, at, "kvs_feed", err));
    if (memcmp(at, &feeds->size, sizeof feeds->size) != 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "sequence %zu: kvs_feed has another size than that of sequence 0", index);
    return KVS_OK;
}

static kvs_status check_feeds(const kvs_runner *r, const kvsi_feed_list *feeds, kvs_err *err)
{
    for (size_t f = 0; f < feeds->count; f++) {
        const kvs_feed feed = kvsi_feed_at(feeds, f);
        char who[48];

        who[0] = '\0';
        if (feeds->count > 1)
            snprintf(who, sizeof who, "sequence %zu: ", f);
        TRY(check_size(feeds, f, err));
        if (!feed.session)
            return kvsi_fail(err, KVS_E_INVALID, "%ssession is NULL", who);
        if (feed.session->state.model != r->model)
            return kvsi_fail(err, KVS_E_INVALID, "sequence %zu is a session of another model", f);
        for (size_t other = 0; other < f; other++)
            if (kvsi_feed_at(feeds, other).session == feed.session)
                return kvsi_fail(err, KVS_E_INVALID, "sequence %zu is the same session as %zu", f,
                                 other);
        TRY(check_feed(&feed, who, err));
    }
    return KVS_OK;
}

/* ---- one pass ---- */

/* Returns the target for a token of a feed; -1 = the token needs no target.  The likeliest token is
 * computed for every row that has a target, so `best` alone uses target 0. */
static int32_t target_at(const kvs_feed *feed, size_t index)
{
    if (feed->logprobs && feed->targets && feed->targets[index] >= 0)
        return feed->targets[index];
    return feed->best ? 0 : -1;
}

/* Adds up to `left` tokens of a feed to the batch; returns how many.  Adds none if the taps of the
 * session differ from those of the sessions in the batch: these tokens go into a later pass. */
static size_t add_part(kvs_runner *r, const kvs_feed *feed, size_t left)
{
    kvs_session *s = feed->session;
    const size_t at = r->starts[r->parts], past = s->state.length;
    const size_t count = kvsi_min(kvsi_min(s->goal - past, left), kvsi_state_chunk(&s->state));

    if (count == 0 || (r->parts > 0 && !kvsi_state_same_taps(&s->state, r->states[0])))
        return 0;
    memcpy(r->ids + at, s->ids + past, count * sizeof *r->ids);
    for (size_t t = 0; t < count; t++)
        r->targets[at + t] = target_at(feed, kvsi_index_in_feed(feed, past + t));
    r->feeds[r->parts] = *feed;
    r->states[r->parts] = &s->state;
    r->starts[++r->parts] = at + count;
    return count;
}

static void make_batch(kvs_runner *r, const kvsi_feed_list *feeds)
{
    size_t left = r->pass->limits.tokens;

    r->parts = 0;
    r->starts[0] = 0;
    for (size_t f = 0; f < feeds->count && left > 0 && r->parts < r->pass->limits.sequences; f++) {
        const kvs_feed feed = kvsi_feed_at(feeds, f);

        left -= add_part(r, &feed, left);
    }
}

kvs_status kvsi_runner_run(kvs_runner *runner, const kvsi_feed_list *feeds, kvs_err *err)
{
    for (make_batch(runner, feeds); runner->parts > 0; make_batch(runner, feeds)) {
        const kvs_batch batch = {.sequences = runner->parts,
                                 .starts = runner->starts,
                                 .ids = runner->ids,
                                 .targets = runner->targets};

        TRY(kvsi_pass_load(runner->pass, &batch, runner->states, err));
        kvsi_pass_forward(runner->pass);
        TRY(kvsi_score_batch(runner, err));
    }
    return KVS_OK;
}

/* ---- feeding ---- */

/* Computes the logits after the last token of each session in r->feeds. */
static kvs_status compute_logits_of_batch(kvs_runner *r, kvs_err *err)
{
    for (size_t i = 0; i < r->parts; i++)
        r->outputs[i] = r->feeds[i].logits;
    TRY(kvsi_pass_state_logits(r->pass, r->outputs, r->logits, r->states, r->parts, err));
    r->parts = 0;
    return KVS_OK;
}

static kvs_status compute_logits(kvs_runner *r, const kvsi_feed_list *feeds, kvs_err *err)
{
    r->parts = 0;
    for (size_t f = 0; f < feeds->count; f++) {
        const kvs_feed feed = kvsi_feed_at(feeds, f);

        if (!feed.logits || feed.count == 0)
            continue;
        r->feeds[r->parts] = feed;
        r->states[r->parts++] = &feed.session->state;
        if (r->parts == r->pass->limits.sequences)
            TRY(compute_logits_of_batch(r, err));
    }
    return r->parts > 0 ? compute_logits_of_batch(r, err) : KVS_OK;
}

/* Appends the ids of a feed to those of its session, and sets the log-probabilities to 0. */
static void append_ids(const kvs_feed *feed)
{
    kvs_session *s = feed->session;

    if (feed->count > 0)
        memcpy(s->ids + s->state.length, feed->ids, feed->count * sizeof *s->ids);
    s->goal = s->state.length + feed->count;
    for (size_t i = 0; feed->logprobs && i < feed->count; i++)
        feed->logprobs[i] = 0;
}

static kvs_status run_feeds(kvs_runner *r, const kvsi_feed_list *feeds, kvs_err *err)
{
    for (size_t f = 0; f < feeds->count; f++) {
        const kvs_feed feed = kvsi_feed_at(feeds, f);

        append_ids(&feed);
    }
    TRY(kvsi_score_first(r, feeds, err));
    TRY(kvsi_runner_run(r, feeds, err));
    return compute_logits(r, feeds, err);
}

kvs_status kvs_runner_feed(kvs_runner *runner, const kvs_feed *feeds, size_t count, kvs_err *err)
{
    kvsi_feed_list list = {.at = feeds, .count = count};

    if (count == 0)
        return KVS_OK;
    NEED(feeds);
    list.size = feeds->size;
    TRY(check_size(&list, 0, err));
    if (!runner) {
        const kvs_feed first = kvsi_feed_at(&list, 0);

        if (!first.session)
            return kvsi_fail(err, KVS_E_INVALID, "session is NULL");
        runner = first.session->runner;
    }
    TRY(check_feeds(runner, &list, err));
    return run_feeds(runner, &list, err);
}

kvs_status kvs_session_feed(kvs_session *session, const int32_t *ids, size_t count, float *logits,
                            kvs_err *err)
{
    const kvs_feed feed = {
        .size = sizeof feed, .session = session, .ids = ids, .count = count, .logits = logits};

    NEED(session);
    TRY(check_feed(&feed, "", err));
    return run_feeds(session->runner, &(kvsi_feed_list){&feed, sizeof feed, 1}, err);
}

kvs_status kvs_session_logits(float *logits, kvs_session *session, kvs_err *err)
{
    kvs_feed feed = {.size = sizeof feed, .session = session, .logits = logits};

    NEED(logits);
    NEED(session);
    feed.count = session->state.length;
    if (feed.count == 0)
        return kvsi_fail(err, KVS_E_INVALID, "an empty session has no logits");
    return compute_logits(session->runner, &(kvsi_feed_list){&feed, sizeof feed, 1}, err);
}
