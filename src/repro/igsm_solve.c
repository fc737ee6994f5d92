#include "repro/igsm_solve.h"

#include "base/memory.h"
#include "base/status.h"
#include "config/config.h"

enum { TOGETHER = 32 }; /* problems solved in one batch */

/* One of the problems being solved. */
typedef struct slot {
    kvs_session *session;
    int32_t *prompt;  /* [capacity] */
    int32_t *written; /* [capacity] */
    int32_t *best;    /* [capacity]: most likely next token after each token fed */
    size_t count;     /* written */
    uint64_t number;
    int is_done;
} slot;

typedef struct solver {
    kvs_runner *runner;
    slot slots[TOGETHER];
    size_t capacity; /* tokens per sequence */
    const kvs_data *task;
    uint64_t seed;
} solver;

static void solver_release(solver *h)
{
    for (size_t i = 0; i < TOGETHER; i++) {
        kvs_session_free(h->slots[i].session);
        kvsi_free(h->slots[i].prompt);
        kvsi_free(h->slots[i].written);
        kvsi_free(h->slots[i].best);
    }
    kvs_runner_free(h->runner);
}

static kvs_status solver_init(solver *h, const kvs_model *model, const kvs_data *task,
                              uint64_t seed, kvs_err *err)
{
    const size_t context = kvs_model_get_config(model)->context;

    *h = (solver){.task = task, .seed = seed};
    h->capacity = context > kvs_data_max_length(task) ? context : kvs_data_max_length(task);
    TRY(kvs_runner_create(
        &h->runner, model,
        &(kvs_runner_options){.size = sizeof(kvs_runner_options), .sequences = TOGETHER}, err));
    for (size_t i = 0; i < TOGETHER; i++) {
        slot *s = &h->slots[i];

        TRY(kvs_session_create(
            &s->session, model,
            &(kvs_session_options){.size = sizeof(kvs_session_options), .runner = h->runner}, err));
        s->prompt = kvsi_alloc(h->capacity, sizeof *s->prompt);
        s->written = kvsi_alloc(h->capacity, sizeof *s->written);
        s->best = kvsi_alloc(h->capacity, sizeof *s->best);
        if (!s->prompt || !s->written || !s->best)
            return kvsi_fail(err, KVS_E_NOMEM, "out of memory for solutions of %zu tokens",
                             h->capacity);
    }
    return KVS_OK;
}

/* Appends the most likely token. */
static void write_next(solver *h, slot *s, size_t fed)
{
    const int32_t next = s->best[fed - 1];

    s->written[s->count++] = next;
    s->is_done = next == kvs_igsm_end(h->task) ||
                 kvs_session_length(s->session) == kvs_session_capacity(s->session);
}

static kvs_status start(solver *h, size_t count, kvs_err *err)
{
    kvs_feed feeds[TOGETHER];

    for (size_t i = 0; i < count; i++) {
        slot *s = &h->slots[i];

        kvs_session_reset(s->session);
        s->count = 0;
        s->is_done = 0;
        feeds[i] = (kvs_feed){
            .size = sizeof(kvs_feed), .session = s->session, .ids = s->prompt, .best = s->best};
        feeds[i].count = kvs_igsm_problem(s->prompt, h->task, h->seed, s->number);
    }
    TRY(kvs_runner_feed(h->runner, feeds, count, err));
    for (size_t i = 0; i < count; i++)
        write_next(h, &h->slots[i], feeds[i].count);
    return KVS_OK;
}

/* One more token for each unfinished problem; *left: how many there were. */
static kvs_status go_on(solver *h, size_t count, size_t *left, kvs_err *err)
{
    kvs_feed feeds[TOGETHER];
    slot *fed[TOGETHER];

    *left = 0;
    for (size_t i = 0; i < count; i++) {
        slot *s = &h->slots[i];

        if (s->is_done)
            continue;
        feeds[*left] = (kvs_feed){.size = sizeof(kvs_feed),
                                  .session = s->session,
                                  .ids = s->written + s->count - 1,
                                  .count = 1,
                                  .best = s->best};
        fed[(*left)++] = s;
    }
    TRY(kvs_runner_feed(h->runner, feeds, *left, err));
    for (size_t i = 0; i < *left; i++)
        write_next(h, fed[i], 1);
    return KVS_OK;
}

static kvs_status grade(kvsi_igsm_score *out, const solver *h, const slot *s, kvs_err *err)
{
    kvs_igsm_grade g;

    TRY(kvs_igsm_grade_answer(&g, h->task, h->seed, s->number, s->written, s->count, err));
    out->problems++;
    out->solved += (size_t)g.solved;
    out->first_right += (size_t)g.first_right;
    out->asked_missing += (size_t)g.asked_missing;
    out->strict += (size_t)g.strict;
    return KVS_OK;
}

kvs_status kvsi_igsm_solve(kvsi_igsm_score *out, const kvs_model *model, const kvs_data *task,
                           uint64_t seed, size_t problems, kvs_err *err)
{
    kvs_status st;
    solver h;

    *out = (kvsi_igsm_score){0};
    TRY_OUT(solver_init(&h, model, task, seed, err));
    for (size_t first = 0; first < problems; first += TOGETHER) {
        const size_t count = problems - first < TOGETHER ? problems - first : TOGETHER;
        size_t left = count;

        for (size_t i = 0; i < count; i++)
            h.slots[i].number = first + i;
        TRY_OUT(start(&h, count, err));
        while (left > 0)
            TRY_OUT(go_on(&h, count, &left, err));
        for (size_t i = 0; i < count; i++)
            TRY_OUT(grade(out, &h, &h.slots[i], err));
    }
out:
    solver_release(&h);
    return st;
}
