#include "serve/engine.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/memory.h"
#include "serve/sampling.h"
#include "serve/schedule.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* A shorter prefix is fed again rather than copied: a copy feeds up to 64 tokens itself. */
enum { SHARED_LEAST = 32 };

enum { PENDING, PREFILLS, DECODES, DONE }; /* phases of a choice */

typedef struct slot {
    kvsi_job *job; /* NULL = free */
    kvsi_choice *choice;
    float *logits;
} slot;

struct kvsi_engine {
    kvsi_engine_options o;
    kvs_runner *runner;
    kvsi_prefixes *prefixes;
    slot *slots;
    kvs_feed *feeds;
    kvsi_waiting_prompt *waiting;
    size_t logit_count, choice_ids; /* ids that are chosen from */
    kvsi_costs costs;
    uint64_t arrivals;

    pthread_t thread;
    int runs;
    pthread_mutex_t lock;
    pthread_cond_t wakes;
    kvsi_job *jobs; /* oldest first; guarded, as are `is_cancelled` of each and what follows */
    size_t job_count;
    int drains, stops;
    kvsi_engine_stats stats;
};

/* ---- results of a choice --------------------------------------------------------------------- */

static void release_choice(kvsi_choice *c)
{
    kvsi_text_release(&c->text);
    kvsi_free(c->ids);
    kvsi_free(c->logprobs);
    kvsi_free(c->top_ids);
    kvsi_free(c->top_logprobs);
}

void kvsi_job_release_results(kvsi_job *job)
{
    for (size_t i = 0; job->choices && i < job->choice_count; i++)
        release_choice(&job->choices[i]);
    kvsi_free(job->choices);
    kvsi_free(job->ends);
    job->choices = NULL;
    job->ends = NULL;
}

/* Notes the log-probability of the chosen token and of its alternatives.  They are rounded to
 * float32, as those of prompts are. */
static kvs_status note_logprobs(const kvsi_engine *e, const kvsi_job *job, kvsi_choice *c,
                                const float *logits, int32_t id, kvs_err *err)
{
    const size_t top = job->request.top, at = c->count;
    struct kvsi_choice_state *own = &c->own;
    size_t found;

    TRY(kvsi_array_reserve(&c->logprobs, &own->logprobs_capacity, at + 1, sizeof *c->logprobs,
                           err));
    c->logprobs[at] = (double)(float)kvs_logits_logprob(logits, e->logit_count, id);
    if (top == 0)
        return KVS_OK;
    TRY(kvsi_array_reserve(&c->top_ids, &own->top_ids_capacity, (at + 1) * top, sizeof *c->top_ids,
                           err));
    TRY(kvsi_array_reserve(&c->top_logprobs, &own->top_logprobs_capacity, (at + 1) * top,
                           sizeof *c->top_logprobs, err));
    found = kvs_logits_top(c->top_ids + at * top, c->top_logprobs + at * top, top, logits,
                           e->logit_count);
    for (size_t i = 0; i < top; i++) {
        double *value = &c->top_logprobs[at * top + i];

        if (i >= found)
            c->top_ids[at * top + i] = -1;
        *value = i < found ? (double)(float)*value : -INFINITY;
    }
    return KVS_OK;
}

/* ---- the end of choices and jobs ------------------------------------------------------------- */

/* Removes a choice from its slot.  Its session goes into the store if `keeps`. */
static void leave_slot(kvsi_engine *e, kvsi_job *job, kvsi_choice *c, int keeps)
{
    struct kvsi_choice_state *own = &c->own;
    const kvsi_job_prompt *prompt = &job->prompts[c->prompt];

    if (own->phase == PREFILLS || own->phase == DECODES) {
        e->slots[own->slot].job = NULL;
        job->active--;
    }
    if (own->session && keeps)
        kvsi_prefixes_add(e->prefixes, job->owner, own->session,
                          prompt->scores.own ? &prompt->scores : NULL, e->o.cache);
    else
        kvs_session_free(own->session);
    kvsi_chooser_free(own->chooser);
    kvs_detokenizer_free(own->detokenizer);
    own->session = NULL;
    own->chooser = NULL;
    own->detokenizer = NULL;
    if (own->phase != DONE)
        job->left--;
    own->phase = DONE;
    c->is_done = 1;
}

/* Ends a job early, with its choices. */
static void abandon(kvsi_engine *e, kvsi_job *job)
{
    for (size_t i = 0; i < job->choice_count; i++)
        if (job->choices[i].own.phase != DONE)
            leave_slot(e, job, &job->choices[i], 0);
}

static void fail_job(kvsi_engine *e, kvsi_job *job, const kvs_err *err)
{
    kvsi_refuse_failed(&job->refusal, err);
    abandon(e, job);
}

static void tell(kvsi_engine *e, kvsi_job *job, kvsi_choice *c)
{
    if (!job->changed || !job->changed(job, c))
        return;
    pthread_mutex_lock(&e->lock);
    job->is_cancelled = 1;
    pthread_mutex_unlock(&e->lock);
    abandon(e, job);
}

/* Finds which stop text ended the choice: the one that follows the text.  Of several the shortest
 * was complete first. */
static const char *find_stop(const kvsi_engine *e, const kvsi_job *job, const kvsi_choice *c)
{
    const kvsi_job_prompt *prompt = &job->prompts[c->prompt];
    const char *const *stops = job->request.stops, *best = NULL, *text;
    kvs_detokenizer *d;
    size_t size, at = 0;
    kvsi_text all = {0};

    if (kvs_detokenizer_create(&d, e->o.tokenizer, NULL, 0, NULL) != KVS_OK)
        return NULL;
    if (kvs_detokenizer_skip(d, prompt->ids, prompt->count, NULL) == KVS_OK &&
        kvs_detokenizer_add(&text, &size, d, c->ids, c->count, NULL) == KVS_OK) {
        kvsi_text_add_bytes(&all, text, size);
        if (kvs_detokenizer_finish(&text, &size, d, NULL) == KVS_OK)
            kvsi_text_add_bytes(&all, text, size);
    }
    kvs_detokenizer_free(d);
    for (size_t i = 0; i <= job->request.stop_count && all.data && !all.failed; i++) {
        const char *stop = i < job->request.stop_count ? stops[i] : job->stop_text;

        at = stop ? strlen(stop) : 0;
        if (at > 0 && c->text.length + at <= all.length &&
            memcmp(all.data + c->text.length, stop, at) == 0 && (!best || at < strlen(best)))
            best = stop;
    }
    kvsi_text_release(&all);
    return best;
}

static void end_choice(kvsi_engine *e, kvsi_job *job, kvsi_choice *c, kvsi_ending ending)
{
    c->ending = ending;
    if (ending == KVSI_ENDED_TEXT)
        c->stop_text = find_stop(e, job, c);
    leave_slot(e, job, c, 1);
    tell(e, job, c);
}

/* ---- the next token -------------------------------------------------------------------------- */

static int is_among(const int32_t *ids, size_t count, int32_t id)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] == id)
            return 1;
    return 0;
}

static kvs_status add_text(kvsi_choice *c, int32_t id, int is_last, kvs_err *err)
{
    const char *text;
    size_t size;

    if (id >= 0) {
        TRY(kvs_detokenizer_add(&text, &size, c->own.detokenizer, &id, 1, err));
        kvsi_text_add_bytes(&c->text, text ? text : "", size);
    }
    if (is_last && !kvs_detokenizer_stopped(c->own.detokenizer)) {
        TRY(kvs_detokenizer_finish(&text, &size, c->own.detokenizer, err));
        kvsi_text_add_bytes(&c->text, text ? text : "", size);
    }
    return kvsi_text_check(&c->text, err);
}

/* Chooses the next token of a choice from the logits in its slot. */
static kvs_status choose(kvsi_engine *e, kvsi_job *job, kvsi_choice *c, kvs_err *err)
{
    const float *logits = e->slots[c->own.slot].logits;
    const int may_end = c->count >= job->request.min_tokens;
    const int32_t id =
        kvsi_chooser_next(c->own.chooser, logits, job->ends, may_end ? 0 : job->end_count);
    int ends, is_last;

    if (!isfinite(logits[id]))
        return kvsi_fail(err, KVS_E_FORMAT, "the logits after %zu tokens are not finite",
                         kvs_session_length(c->own.session));
    if (job->request.logprobs)
        TRY(note_logprobs(e, job, c, logits, id, err));
    TRY(kvsi_array_reserve(&c->ids, &c->own.ids_capacity, c->count + 1, sizeof *c->ids, err));
    c->ids[c->count++] = id;
    job->generated++;
    if (job->first_token == 0)
        job->first_token = kvsi_clock_seconds();
    ends = is_among(job->ends, job->end_count, id);
    is_last = c->count == job->request.max_tokens;
    TRY(add_text(c, ends ? -1 : id, ends || is_last, err));
    c->own.phase = DECODES;
    c->own.next = id;
    if (kvs_detokenizer_stopped(c->own.detokenizer))
        end_choice(e, job, c, KVSI_ENDED_TEXT);
    else if (ends)
        end_choice(e, job, c,
                   is_among(job->request.stop_ids, job->request.stop_id_count, id)
                       ? KVSI_ENDED_ID
                       : KVSI_ENDED_EOS);
    else if (is_last)
        end_choice(e, job, c, KVSI_ENDED_LENGTH);
    else
        tell(e, job, c);
    return KVS_OK;
}

/* The prompt of a choice has been fed, and the logits after it are in the slot. */
static kvs_status prompt_done(kvsi_engine *e, kvsi_job *job, kvsi_choice *c, kvs_err *err)
{
    job->prompts[c->prompt].is_fed = 1;
    if (job->request.max_tokens > 0)
        return choose(e, job, c, err);
    end_choice(e, job, c, KVSI_ENDED_LENGTH);
    return KVS_OK;
}

/* ---- the start of a choice ------------------------------------------------------------------- */

/* Where the first tokens of a prompt can be copied from. */
typedef struct source {
    const kvs_session *session;
    const kvsi_scores *scores;
    size_t shared;
} source;

/* Only the first sample of a prompt computes its log-probabilities. */
static int scores_prompt(const kvsi_job *job, const kvsi_choice *c)
{
    return c->sample == 0 && job->prompts[c->prompt].scores.own;
}

/* Looks into the store and at the sessions of other choices.  Without a store, only choices of the
 * same job count. */
static source find_source(kvsi_engine *e, const kvsi_job *job, const kvsi_choice *c)
{
    const kvsi_job_prompt *prompt = &job->prompts[c->prompt];
    const int scored = scores_prompt(job, c);
    source best = {0};

    if (scored && prompt->scores.top > 1)
        return best;
    if (e->o.prefix_bytes > 0)
        best.shared = kvsi_prefixes_find(&best.session, &best.scores, e->prefixes, job->owner,
                                         prompt->ids, prompt->count, scored);
    for (size_t i = 0; i < e->o.slots && !scored; i++) {
        const slot *s = &e->slots[i];
        size_t shared = 0;

        if (s->job && s->choice != c && s->job->owner == job->owner &&
            (s->job == job || e->o.prefix_bytes > 0))
            shared = kvsi_shared_prefix(s->choice->own.session, prompt->ids, prompt->count);
        if (shared > best.shared)
            best = (source){s->choice->own.session, NULL, shared};
    }
    if (best.shared < SHARED_LEAST && best.shared < prompt->count)
        best = (source){0};
    return best;
}

static void copy_scores(kvsi_scores *to, const kvsi_scores *from, size_t count)
{
    memcpy(to->own, from->own, count * sizeof *to->own);
    for (size_t i = 0; i < count * to->top; i++) { /* top is 1 */
        to->top_ids[i] = from->top_ids[i];
        to->top_logprobs[i] = from->top_logprobs[i];
    }
}

static kvs_status create_session(kvsi_engine *e, kvsi_job *job, kvsi_choice *c, kvs_err *err)
{
    kvsi_job_prompt *prompt = &job->prompts[c->prompt];
    const size_t tokens = job->request.max_tokens;
    const source from = find_source(e, job, c);
    const kvs_session_options how = {.size = sizeof how,
                                     .capacity = prompt->count + (tokens > 1 ? tokens - 1 : 0),
                                     .cache = from.session ? KVS_DTYPE_KEEP : e->o.cache,
                                     .runner = e->runner};

    if (!from.session)
        return kvs_session_create(&c->own.session, e->o.model, &how, err);
    TRY(kvs_session_copy(&c->own.session, from.session, from.shared, &how, err));
    c->own.fed = from.shared;
    if (scores_prompt(job, c))
        copy_scores(&prompt->scores, from.scores, from.shared);
    if (c->sample == 0)
        job->cached += from.shared;
    kvsi_prefixes_hit(e->prefixes, from.session);
    return KVS_OK;
}

static kvs_status create_detokenizer(const kvsi_engine *e, const kvsi_job *job, kvsi_choice *c,
                                     kvs_err *err)
{
    const kvsi_job_prompt *prompt = &job->prompts[c->prompt];
    const size_t known = kvs_tokenizer_vocab(e->o.tokenizer);
    const char *stops[KVSI_STOPS_MAX + 1];
    size_t count = 0;

    for (; count < job->request.stop_count; count++)
        stops[count] = job->request.stops[count];
    if (job->stop_text)
        stops[count++] = job->stop_text;
    TRY(kvs_detokenizer_create(&c->own.detokenizer, e->o.tokenizer, stops, count, err));
    /* Ids that the tokenizer does not have are allowed in a prompt; they have no text. */
    for (size_t from = 0, to; from < prompt->count; from = to + 1) {
        for (to = from; to < prompt->count && (size_t)prompt->ids[to] < known;)
            to++;
        TRY(kvs_detokenizer_skip(c->own.detokenizer, prompt->ids + from, to - from, err));
    }
    return KVS_OK;
}

static kvs_status start_choice(kvsi_engine *e, kvsi_job *job, kvsi_choice *c, kvs_err *err)
{
    const kvsi_job_prompt *prompt = &job->prompts[c->prompt];

    if (job->started == 0)
        job->started = kvsi_clock_seconds();
    c->own.arrival = ++e->arrivals;
    kvsi_text_add(&c->text, "");
    TRY(create_session(e, job, c, err));
    TRY(create_detokenizer(e, job, c, err));
    TRY(kvsi_chooser_create(&c->own.chooser, &job->request, c->sample, e->choice_ids, prompt->ids,
                            prompt->count, err));
    if (c->own.fed < prompt->count)
        return KVS_OK;
    if (job->request.max_tokens > 0)
        TRY(kvs_session_logits(e->slots[c->own.slot].logits, c->own.session, err));
    return prompt_done(e, job, c, err);
}

/* Returns a choice of the job that can start; NULL = none.  Further samples of a prompt wait until
 * the first has fed it, and then copy its session. */
static kvsi_choice *startable(const kvsi_job *job)
{
    for (size_t i = 0; i < job->choice_count; i++) {
        kvsi_choice *c = &job->choices[i];

        if (c->own.phase == PENDING && (c->sample == 0 || job->prompts[c->prompt].is_fed))
            return c;
    }
    return NULL;
}

/* Puts choices into free slots. */
static void fill_slots(kvsi_engine *e)
{
    for (size_t i = 0; i < e->o.slots; i++) {
        kvsi_job *next = NULL;
        kvsi_choice *c = NULL;
        kvs_err err = {0};

        if (e->slots[i].job)
            continue;
        pthread_mutex_lock(&e->lock);
        for (kvsi_job *job = e->jobs; job; job = job->next) {
            kvsi_choice *can = job->left > job->active ? startable(job) : NULL;

            if (can && (!next || job->active < next->active)) {
                next = job;
                c = can;
            }
        }
        pthread_mutex_unlock(&e->lock);
        if (!next)
            return;
        e->slots[i].job = next;
        e->slots[i].choice = c;
        c->own.slot = (int)i;
        c->own.phase = PREFILLS;
        next->active++;
        if (start_choice(e, next, c, &err) != KVS_OK)
            fail_job(e, next, &err);
    }
}

/* ---- one pass -------------------------------------------------------------------------------- */

static kvs_feed feed_of(const slot *s, size_t now)
{
    kvsi_choice *c = s->choice;
    kvsi_job_prompt *prompt = &s->job->prompts[c->prompt];
    kvs_feed feed = {.size = sizeof feed, .session = c->own.session};

    if (c->own.phase == DECODES) {
        feed.ids = &c->own.next;
        feed.count = 1;
        feed.logits = s->logits;
        return feed;
    }
    feed.ids = prompt->ids + c->own.fed;
    feed.count = now;
    if (c->own.fed + now == prompt->count && s->job->request.max_tokens > 0)
        feed.logits = s->logits;
    if (scores_prompt(s->job, c)) {
        feed.own_logprobs = prompt->scores.own + c->own.fed;
        feed.top = prompt->scores.top;
        feed.top_ids = prompt->scores.top_ids + c->own.fed * feed.top;
        feed.top_logprobs = prompt->scores.top_logprobs + c->own.fed * feed.top;
    }
    return feed;
}

/* Decides what the pass feeds.  Returns the number of texts that are being generated. */
static size_t plan_pass(kvsi_engine *e)
{
    size_t decoding = 0, tokens;

    for (size_t i = 0; i < e->o.slots; i++) {
        const slot *s = &e->slots[i];

        e->waiting[i] = (kvsi_waiting_prompt){0};
        if (!s->job)
            continue;
        decoding += s->choice->own.phase == DECODES;
        if (s->choice->own.phase == PREFILLS)
            e->waiting[i] = (kvsi_waiting_prompt){.left = s->job->prompts[s->choice->prompt].count -
                                                          s->choice->own.fed,
                                                  .arrival = s->choice->own.arrival};
    }
    tokens = e->o.pass_tokens - decoding;
    if (decoding > 0) {
        const size_t slice = kvsi_costs_slice(&e->costs, e->o.slice_seconds);

        tokens = slice < tokens ? slice : tokens;
    }
    kvsi_divide_slice(e->waiting, e->o.slots, tokens);
    return decoding;
}

/* After the pass. */
static void take_results(kvsi_engine *e)
{
    for (size_t i = 0; i < e->o.slots; i++) {
        const slot s = e->slots[i];
        kvs_err err = {0};
        kvs_status st = KVS_OK;

        if (!s.job)
            continue;
        if (s.choice->own.phase == DECODES) {
            st = choose(e, s.job, s.choice, &err);
        } else {
            s.choice->own.fed += e->waiting[i].now;
            if (e->waiting[i].now > 0 &&
                s.choice->own.fed == s.job->prompts[s.choice->prompt].count)
                st = prompt_done(e, s.job, s.choice, &err);
        }
        if (st != KVS_OK)
            fail_job(e, s.job, &err);
    }
}

static void run_pass(kvsi_engine *e)
{
    const size_t decoding = plan_pass(e);
    const double start = kvsi_clock_seconds();
    size_t count = 0, tokens = 0;
    kvs_err err = {0};
    double seconds;

    for (size_t i = 0; i < e->o.slots; i++)
        if (e->slots[i].job &&
            (e->slots[i].choice->own.phase == DECODES || e->waiting[i].now > 0)) {
            e->feeds[count++] = feed_of(&e->slots[i], e->waiting[i].now);
            tokens += e->waiting[i].now;
        }
    if (kvs_runner_feed(e->runner, e->feeds, count, &err) != KVS_OK) {
        for (size_t i = 0; i < e->o.slots; i++)
            if (e->slots[i].job)
                fail_job(e, e->slots[i].job, &err);
        return;
    }
    seconds = kvsi_clock_seconds() - start;
    kvsi_costs_note(&e->costs, seconds, decoding, tokens);
    take_results(e);
    pthread_mutex_lock(&e->lock);
    e->stats.passes++;
    e->stats.pass_seconds += seconds;
    e->stats.fed_tokens += tokens + decoding;
    pthread_mutex_unlock(&e->lock);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Ends jobs that were cancelled or are over their time.  Returns whether a slot is in use. */
static int look_at_jobs(kvsi_engine *e)
{
    const double now = kvsi_clock_seconds();

    for (kvsi_job *job = e->jobs; job; job = job->next) {
        if (e->stops)
            job->is_cancelled = 1;
        if (job->left > 0 && job->is_cancelled)
            abandon(e, job);
        if (job->left > 0 && now - job->submitted > e->o.job_seconds) {
            kvsi_refuse(&job->refusal, 504, "timeout", NULL,
                        "the request took more than %.0f seconds", e->o.job_seconds);
            abandon(e, job);
        }
    }
    for (size_t i = 0; i < e->o.slots; i++)
        if (e->slots[i].job)
            return 1;
    return 0;
}

/* Takes the first job that is over out of the list; NULL = none. */
static kvsi_job *take_finished(kvsi_engine *e)
{
    kvsi_job **at = &e->jobs, *job;

    while (*at && (*at)->left > 0)
        at = &(*at)->next;
    job = *at;
    if (!job)
        return NULL;
    *at = job->next;
    e->job_count--;
    e->stats.jobs++;
    e->stats.jobs_failed += job->refusal.status != 0;
    e->stats.jobs_cancelled += job->is_cancelled != 0;
    e->stats.cached_tokens += job->cached;
    e->stats.generated_tokens += job->generated;
    for (size_t i = 0; i < job->prompt_count; i++)
        e->stats.prompt_tokens += job->prompts[i].count;
    return job;
}

static void update_stats(kvsi_engine *e)
{
    e->stats.active = 0;
    for (size_t i = 0; i < e->o.slots; i++)
        e->stats.active += e->slots[i].job != NULL;
    e->stats.waiting = 0;
    for (const kvsi_job *job = e->jobs; job; job = job->next)
        e->stats.waiting += job->active == 0;
    e->stats.prefixes = kvsi_prefixes_stats(e->prefixes);
}

static void *run(void *user)
{
    kvsi_engine *e = user;
    int is_busy, stops = 0;

    while (!stops) {
        kvsi_job *finished;

        pthread_mutex_lock(&e->lock);
        while (!e->jobs && !e->stops)
            pthread_cond_wait(&e->wakes, &e->lock);
        look_at_jobs(e);
        pthread_mutex_unlock(&e->lock);
        fill_slots(e);
        pthread_mutex_lock(&e->lock);
        is_busy = look_at_jobs(e);
        pthread_mutex_unlock(&e->lock);
        if (is_busy)
            run_pass(e);
        do {
            pthread_mutex_lock(&e->lock);
            finished = take_finished(e);
            update_stats(e);
            stops = e->stops && !e->jobs;
            pthread_mutex_unlock(&e->lock);
            if (finished) {
                finished->ended = kvsi_clock_seconds();
                finished->done(finished);
            }
        } while (finished);
    }
    return NULL;
}

/* ---- from other threads ---------------------------------------------------------------------- */

/* Creates the choices and the list of tokens that end the text. */
static kvs_status prepare(const kvsi_engine *e, kvsi_job *job, kvs_err *err)
{
    const kvsi_request *r = &job->request;
    const int32_t *eos = NULL;
    const size_t eos_count = kvs_model_eos(e->o.model, &eos);
    const int32_t others[] = {kvs_tokenizer_eos(e->o.tokenizer), job->stop_id};

    job->choice_count = job->left = job->prompt_count * r->n;
    job->choices = kvsi_alloc(job->choice_count, sizeof *job->choices);
    job->ends = kvsi_alloc(eos_count + r->stop_id_count + 2, sizeof *job->ends);
    if (!job->choices || !job->ends) {
        kvsi_job_release_results(job);
        return kvsi_no_memory(err, "%zu choices", job->choice_count);
    }
    for (size_t i = 0; i < job->choice_count; i++) {
        job->choices[i].prompt = i / r->n;
        job->choices[i].sample = i % r->n;
    }
    for (size_t i = 0; i < r->stop_id_count; i++)
        job->ends[job->end_count++] = r->stop_ids[i];
    for (size_t i = 0; !r->ignore_eos && i < eos_count; i++)
        job->ends[job->end_count++] = eos[i];
    for (size_t i = 0; !r->ignore_eos && i < 2; i++)
        if (others[i] >= 0)
            job->ends[job->end_count++] = others[i];
    return KVS_OK;
}

static kvs_status come_later(kvsi_refusal *refusal, unsigned status, const char *code,
                             const char *message)
{
    kvsi_refuse(refusal, status, code, NULL, "%s", message);
    refusal->retry_seconds = 1;
    return KVS_E_LIMIT;
}

kvs_status kvsi_engine_submit(kvsi_engine *e, kvsi_job *job, kvsi_refusal *refusal)
{
    kvsi_job **at;
    kvs_err err = {0};
    kvs_status st = KVS_OK;

    if (prepare(e, job, &err) != KVS_OK)
        return kvsi_refuse_failed(refusal, &err);
    job->submitted = kvsi_clock_seconds();
    pthread_mutex_lock(&e->lock);
    if (e->drains || e->stops) {
        st = come_later(refusal, 503, "shutting_down", "the server is shutting down");
    } else if (e->job_count >= e->o.queue + e->o.slots) {
        st = come_later(refusal, 429, "queue_full", "too many requests are waiting");
    } else {
        for (at = &e->jobs; *at;)
            at = &(*at)->next;
        *at = job;
        e->job_count++;
        pthread_cond_signal(&e->wakes);
    }
    pthread_mutex_unlock(&e->lock);
    if (st != KVS_OK)
        kvsi_job_release_results(job);
    return st;
}

void kvsi_engine_cancel(kvsi_engine *e, const void *user)
{
    pthread_mutex_lock(&e->lock);
    for (kvsi_job *job = e->jobs; job; job = job->next)
        if (job->user == user)
            job->is_cancelled = 1;
    pthread_mutex_unlock(&e->lock);
}

void kvsi_engine_drain(kvsi_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->drains = 1;
    pthread_mutex_unlock(&e->lock);
}

kvsi_engine_stats kvsi_engine_get_stats(kvsi_engine *e)
{
    kvsi_engine_stats stats;

    pthread_mutex_lock(&e->lock);
    stats = e->stats;
    pthread_mutex_unlock(&e->lock);
    return stats;
}

/* ---- start and end --------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static kvs_status allocate(kvsi_engine *e, kvs_err *err)
{
    const kvs_model *model = e->o.model;
    kvs_runner_options passes;
    const double vocab = kvs_model_config_number(kvs_model_get_config(model), "vocab");

    kvs_runner_options_init(&passes, sizeof passes);
    passes.sequences = e->o.slots;
    passes.tokens = e->o.pass_tokens;
    TRY(kvs_runner_create(&e->runner, model, &passes, err));
    TRY(kvsi_prefixes_create(&e->prefixes, e->o.prefix_bytes, err));
    e->logit_count = kvs_model_logit_count(model);
    e->choice_ids =
        least(least(e->logit_count, (size_t)vocab), kvs_tokenizer_vocab(e->o.tokenizer));
    e->slots = kvsi_alloc(e->o.slots, sizeof *e->slots);
    e->feeds = kvsi_alloc(e->o.slots, sizeof *e->feeds);
    e->waiting = kvsi_alloc(e->o.slots, sizeof *e->waiting);
    if (!e->slots || !e->feeds || !e->waiting)
        return kvsi_no_memory(err, "%zu slots", e->o.slots);
    for (size_t i = 0; i < e->o.slots; i++) {
        e->slots[i].logits = kvsi_alloc(e->logit_count, sizeof(float));
        if (!e->slots[i].logits)
            return kvsi_no_memory(err, "the logits of %zu slots", e->o.slots);
    }
    return KVS_OK;
}

kvs_status kvsi_engine_create(kvsi_engine **out, const kvsi_engine_options *options, kvs_err *err)
{
    kvsi_engine *e = kvsi_alloc(1, sizeof *e);
    kvs_status st;

    *out = NULL;
    if (!e)
        return kvsi_no_memory(err, "the engine");
    e->o = *options;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->wakes, NULL);
    TRY_OUT(allocate(e, err));
    e->runs = pthread_create(&e->thread, NULL, run, e) == 0;
    if (!e->runs) {
        st = kvsi_fail(err, KVS_E_NOMEM, "cannot start the thread of the engine");
        goto out;
    }
    *out = e;
    e = NULL;
out:
    kvsi_engine_free(e);
    return st;
}

void kvsi_engine_stop(kvsi_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->stops = 1;
    pthread_cond_signal(&e->wakes);
    pthread_mutex_unlock(&e->lock);
    if (e->runs)
        pthread_join(e->thread, NULL);
    e->runs = 0;
}

void kvsi_engine_free(kvsi_engine *e)
{
    if (!e)
        return;
    kvsi_engine_stop(e);
    kvsi_prefixes_free(e->prefixes);
    for (size_t i = 0; e->slots && i < e->o.slots; i++)
        kvsi_free(e->slots[i].logits);
    kvsi_free(e->slots);
    kvsi_free(e->feeds);
    kvsi_free(e->waiting);
    kvs_runner_free(e->runner);
    pthread_cond_destroy(&e->wakes);
    pthread_mutex_destroy(&e->lock);
    kvsi_free(e);
}
