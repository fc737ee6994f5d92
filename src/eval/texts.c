#include "eval/texts.h"

#include "base/math.h"
#include "base/memory.h"
#include "eval/tokens.h"

#include <string.h>

/* A sequence that generates one text at a time. */
typedef struct writer {
    kvs_session *session;
    kvs_detokenizer *detokenizer; /* looks for stop strings */
    float *logits;
    int32_t *ids; /* [new_tokens] generated so far */
    size_t count;
    size_t request; /* SIZE_MAX = none */
} writer;

typedef struct generation {
    const kvs_model *model;
    const kvs_tokenizer *tokenizer;
    const kvsi_text_options *o;
    kvsi_text_request *requests;
    size_t count, next; /* next: the first request that no writer has */
    size_t logit_count, writer_count;
    kvs_runner *runner;
    writer *writers;
    kvs_feed *feeds;
    size_t *fed; /* the writer of each feed */
} generation;

static kvs_status writer_init(writer *w, const generation *g, size_t capacity, kvs_err *err)
{
    const kvs_session_options how = {
        .size = sizeof how, .capacity = capacity, .cache = g->o->cache, .runner = g->runner};

    w->request = SIZE_MAX;
    TRY(kvs_session_create(&w->session, g->model, &how, err));
    TRY(kvs_detokenizer_create(&w->detokenizer, g->tokenizer, g->o->stops, g->o->stop_count, err));
    w->logits = kvsi_alloc(g->logit_count, sizeof *w->logits);
    w->ids = kvsi_alloc(g->o->new_tokens, sizeof *w->ids);
    return w->logits && w->ids ? KVS_OK : kvsi_no_memory(err, "%zu logits", g->logit_count);
}

static kvs_status allocate(generation *g, kvs_err *err)
{
    const kvs_runner_options how = {
        .size = sizeof how, .sequences = g->writer_count, .tokens = g->o->tokens};
    size_t longest = 0;

    for (size_t i = 0; i < g->count; i++)
        longest = kvsi_max(longest, g->requests[i].count);
    TRY(kvs_runner_create(&g->runner, g->model, &how, err));
    g->writers = kvsi_alloc(g->writer_count, sizeof *g->writers);
    g->feeds = kvsi_alloc(g->writer_count, sizeof *g->feeds);
    g->fed = kvsi_alloc(g->writer_count, sizeof *g->fed);
    if (!g->writers || !g->feeds || !g->fed)
        return kvsi_no_memory(err, "%zu sequences", g->writer_count);
    for (size_t i = 0; i < g->writer_count; i++)
        TRY(writer_init(&g->writers[i], g, longest + g->o->new_tokens, err));
    return KVS_OK;
}

static void release(generation *g)
{
    for (size_t i = 0; g->writers && i < g->writer_count; i++) {
        kvs_session_free(g->writers[i].session);
        kvs_detokenizer_free(g->writers[i].detokenizer);
        kvsi_free(g->writers[i].logits);
        kvsi_free(g->writers[i].ids);
    }
    kvs_runner_free(g->runner);
    kvsi_free(g->writers);
    kvsi_free(g->feeds);
    kvsi_free(g->fed);
}

static int ends_text(const generation *g, int32_t id)
{
    const int32_t *ends = NULL;
    const size_t count = kvs_model_eos(g->model, &ends);

    for (size_t i = 0; i < count; i++)
        if (ends[i] == id)
            return 1;
    return kvs_tokenizer_eos(g->tokenizer) == id;
}

/* Decodes the text of a writer, cuts it, and makes the writer free. */
static kvs_status finish(generation *g, writer *w, kvs_err *err)
{
    const size_t index = w->request;
    char **text = &g->requests[index].text;

    TRY(kvsi_eval_decode(text, g->tokenizer, w->ids, w->count, err));
    for (size_t i = 0; i < g->o->stop_count; i++) {
        char *stop = strstr(*text, g->o->stops[i]);

        if (stop)
            *stop = '\0';
    }
    w->request = SIZE_MAX;
    return g->o->done ? g->o->done(g->o->user, index, err) : KVS_OK;
}

/* Chooses the next token of a writer. */
static kvs_status choose(generation *g, writer *w, kvs_err *err)
{
    const int32_t id = kvs_logits_best(w->logits, g->logit_count);
    const char *text;
    size_t size;

    if (!(w->logits[id] <= 3e38F && w->logits[id] >= -3e38F))
        return kvsi_fail(err, KVS_E_FORMAT, "the logits after %zu tokens are not finite",
                         kvs_session_length(w->session));
    if (ends_text(g, id))
        return finish(g, w, err);
    w->ids[w->count++] = id;
    if ((size_t)id < kvs_tokenizer_vocab(g->tokenizer)) /* others have no text */
        TRY(kvs_detokenizer_add(&text, &size, w->detokenizer, &id, 1, err));
    if (kvs_detokenizer_stopped(w->detokenizer) || w->count == g->o->new_tokens)
        return finish(g, w, err);
    return KVS_OK;
}

/* Makes the feeds of the next pass: the next prompt for free writers, the last token for others. */
static size_t make_feeds(generation *g)
{
    size_t feeds = 0;

    for (size_t i = 0; i < g->writer_count; i++) {
        writer *w = &g->writers[i];
        kvs_feed *feed = &g->feeds[feeds];

        if (w->request == SIZE_MAX && g->next == g->count)
            continue;
        *feed = (kvs_feed){.size = sizeof *feed, .session = w->session, .logits = w->logits};
        if (w->request == SIZE_MAX) {
            w->request = g->next++;
            w->count = 0;
            kvs_session_reset(w->session);
            kvs_detokenizer_reset(w->detokenizer);
            feed->ids = g->requests[w->request].ids;
            feed->count = g->requests[w->request].count;
        } else {
            feed->ids = &w->ids[w->count - 1];
            feed->count = 1;
        }
        g->fed[feeds++] = i;
    }
    return feeds;
}

kvs_status kvsi_generate_texts(kvsi_text_request *requests, size_t count, const kvs_model *model,
                               const kvs_tokenizer *tokenizer, const kvsi_text_options *options,
                               kvs_err *err)
{
    generation g = {.model = model,
                    .tokenizer = tokenizer,
                    .o = options,
                    .requests = requests,
                    .count = count,
                    .logit_count = kvs_model_logit_count(model),
                    .writer_count = kvsi_min(kvsi_min(options->sequences, options->tokens), count)};
    size_t feeds;
    kvs_status st = KVS_OK;

    if (count == 0)
        return KVS_OK;
    TRY_OUT(allocate(&g, err));
    while ((feeds = make_feeds(&g)) > 0) {
        TRY_OUT(kvs_runner_feed(g.runner, g.feeds, feeds, err));
        for (size_t i = 0; i < feeds; i++)
            TRY_OUT(choose(&g, &g.writers[g.fed[i]], err));
    }
out:
    release(&g);
    return st;
}
