/* Loading a batch: checks, spans, targets, upload. */
#include "model/pass.h"

static kvs_status check_sequence(const kvsi_pass *p, const kvs_batch *b, size_t s,
                                 const kvsi_state *state, kvs_err *err)
{
    const size_t len = b->starts[s + 1] - b->starts[s], past = state ? state->length : 0;
    const size_t limit = state ? state->capacity : p->model->config.context;

    if (b->starts[s + 1] < b->starts[s])
        return kvsi_fail(err, KVS_E_INVALID, "sequence %zu ends at %zu, before its start %zu", s,
                         b->starts[s + 1], b->starts[s]);
    if (len > limit - past)
        return kvsi_fail(err, KVS_E_LIMIT, "sequence %zu would have %zu tokens, the context is %zu",
                         s, past + len, limit);
    if (state && len > kvsi_state_chunk(state))
        return kvsi_fail(err, KVS_E_LIMIT, "sequence %zu: a chunk of %zu tokens, at most %zu", s,
                         len, kvsi_state_chunk(state));
    return KVS_OK;
}

static kvs_status check_token(const kvsi_pass *p, const kvs_batch *b, size_t t, kvs_err *err)
{
    const size_t vocab = p->model->config.vocab;

    if (b->ids[t] < 0 || (size_t)b->ids[t] >= vocab)
        return kvsi_fail(err, KVS_E_INVALID, "token %zu is id %d, expected 0 to %zu", t,
                         (int)b->ids[t], vocab - 1);
    if (b->targets && (b->targets[t] < -1 || b->targets[t] >= (int32_t)vocab))
        return kvsi_fail(err, KVS_E_INVALID, "target %zu is %d, expected -1 to %zu", t,
                         (int)b->targets[t], vocab - 1);
    return KVS_OK;
}

static kvs_status check_batch(const kvsi_pass *p, const kvs_batch *b, kvsi_state *const *states,
                              kvs_err *err)
{
    size_t rows = 0;

    if (b->sequences > p->limits.sequences)
        return kvsi_fail(err, KVS_E_LIMIT, "a batch of %zu sequences, planned for %zu",
                         b->sequences, p->limits.sequences);
    for (size_t s = 0; s < b->sequences; s++)
        TRY(check_sequence(p, b, s, states ? states[s] : NULL, err));
    for (size_t s = 1; states && s < b->sequences; s++)
        if (!kvsi_state_same_taps(states[s], states[0]))
            return kvsi_fail(err, KVS_E_INVALID, "sequence %zu has other taps than sequence 0", s);
    if (b->starts[b->sequences] - b->starts[0] > p->limits.tokens)
        return kvsi_fail(err, KVS_E_LIMIT, "a batch of %zu tokens, planned for %zu",
                         b->starts[b->sequences] - b->starts[0], p->limits.tokens);
    for (size_t t = b->starts[0]; t < b->starts[b->sequences]; t++) {
        TRY(check_token(p, b, t, err));
        rows += b->targets && b->targets[t] >= 0;
    }
    if (rows > p->limits.head_rows)
        return kvsi_fail(err, KVS_E_LIMIT, "a batch with %zu targets, planned for %zu", rows,
                         p->limits.head_rows);
    return KVS_OK;
}

/* The rows that have a target, in order. */
static void gather_targets(kvsi_pass *p, const kvs_batch *b)
{
    const size_t first = b->starts[0];

    p->head_rows = 0;
    for (size_t t = 0; b->targets && t < p->tokens; t++)
        if (b->targets[first + t] >= 0) {
            p->host_rows[p->head_rows] = (int32_t)t;
            p->host_targets[p->head_rows] = b->targets[first + t];
            p->host_scored[p->head_rows++] = b->scored && b->scored[first + t];
        }
}

static void load_spans(kvsi_pass *p, const kvs_batch *b, kvsi_state *const *states)
{
    const size_t first = b->starts[0]; /* not 0 if the batch is part of a larger one */

    for (size_t s = 0; s < b->sequences; s++) {
        const size_t start = b->starts[s] - first, len = b->starts[s + 1] - b->starts[s];
        const size_t past = states ? states[s]->length : 0;

        p->spans[s] = (kvsi_span){.start = start, .len = len, .cache = p->limits.cache};
        p->states[s] = states ? states[s] : NULL;
        if (states)
            kvsi_state_drop_rows(states[s], len);
        for (size_t t = 0; t < len; t++)
            p->host_positions[start + t] = (int32_t)(past + t);
    }
}

kvs_status kvsi_pass_load(kvsi_pass *pass, const kvs_batch *batch, kvsi_state *const *states,
                          kvs_err *err)
{
    kvsi_context *c = &pass->context;
    const kvsi_ops *op = c->ops;

    TRY(check_batch(pass, batch, states, err));
    pass->sequences = batch->sequences;
    pass->tokens = batch->starts[batch->sequences] - batch->starts[0];
    load_spans(pass, batch, states);
    gather_targets(pass, batch);
    op->upload(c, pass->ids, batch->ids + batch->starts[0], pass->tokens * sizeof *pass->ids);
    op->upload(c, pass->positions, pass->host_positions, pass->tokens * sizeof *pass->positions);
    op->upload(c, pass->rows, pass->host_rows, pass->head_rows * sizeof *pass->rows);
    op->upload(c, pass->targets, pass->host_targets, pass->head_rows * sizeof *pass->targets);
    return KVS_OK;
}
