#include "serve/answers.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "serve/json_out.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* What was written of a choice. */
typedef struct written {
    size_t text, tokens; /* bytes and tokens of what was generated */
    size_t prompt;       /* tokens of the prompt */
    int is_begun, is_ended;
    size_t offset;           /* characters of all tokens, for text_offset */
    kvs_detokenizer *pieces; /* the texts of the tokens, one by one; NULL = not needed */
} written;

struct kvsi_answer {
    const kvsi_answer_source *source;
    kvsi_job *job;
    written *written; /* one for each choice */
    char id[48];
    long long created;
};

/* ---- the text of one token ------------------------------------------------------------------- */

int32_t kvsi_token_anchor(const kvs_tokenizer *tokenizer)
{
    int32_t *ids = NULL, anchor = -1;
    size_t count = 0;

    if (kvs_tokenizer_encode(&ids, &count, tokenizer, "a", 1, KVS_ENCODE_NO_SPECIAL, NULL) ==
            KVS_OK &&
        count > 0)
        anchor = ids[count - 1];
    kvs_ids_free(ids);
    return anchor;
}

void kvsi_token_text(kvsi_text *out, const kvsi_answer_source *source, int32_t id)
{
    const int32_t both[] = {source->anchor, id};
    char *first = NULL, *text = NULL;
    size_t first_size = 0, size = 0;

    if (id < 0 || (size_t)id >= kvs_tokenizer_vocab(source->tokenizer))
        return;
    if (source->anchor >= 0 &&
        kvs_tokenizer_decode(&first, &first_size, source->tokenizer, both, 1, NULL) == KVS_OK &&
        kvs_tokenizer_decode(&text, &size, source->tokenizer, both, 2, NULL) == KVS_OK &&
        size >= first_size && memcmp(text, first, first_size) == 0) {
        kvsi_text_add_bytes(out, text + first_size, size - first_size);
    } else {
        kvs_text_free(text);
        text = NULL;
        if (kvs_tokenizer_decode(&text, &size, source->tokenizer, &id, 1, NULL) == KVS_OK)
            kvsi_text_add_bytes(out, text, size);
    }
    kvs_text_free(first);
    kvs_text_free(text);
}

/* ---- creation -------------------------------------------------------------------------------- */

static int is_chat(const kvsi_answer *a)
{
    return (a->job->request.endpoint & KVSI_CHAT) != 0;
}

static void name(kvsi_answer *a)
{
    unsigned char bytes[12] = {0};
    int at = snprintf(a->id, sizeof a->id, is_chat(a) ? "chatcmpl-" : "cmpl-");

    if (getrandom(bytes, sizeof bytes, 0) < 0)
        bytes[0] = 1; /* a name need not be unique for anything of ours */
    for (size_t i = 0; i < sizeof bytes; i++)
        at += snprintf(a->id + at, sizeof a->id - (size_t)at, "%02x", bytes[i]);
    a->created = (long long)time(NULL);
}

kvs_status kvsi_answer_create(kvsi_answer **out, const kvsi_answer_source *source, kvsi_job *job,
                              kvs_err *err)
{
    kvsi_answer *a = kvsi_alloc(1, sizeof *a);
    const size_t count = job->prompt_count * job->request.n;
    kvs_status st = KVS_OK;

    *out = NULL;
    if (!a)
        return kvsi_no_memory(err, "an answer");
    a->source = source;
    a->job = job;
    name(a);
    a->written = kvsi_alloc(count, sizeof *a->written);
    if (!a->written) {
        st = kvsi_no_memory(err, "an answer");
        goto out;
    }
    for (size_t i = 0; job->request.logprobs && i < count; i++) {
        const kvsi_job_prompt *prompt = &job->prompts[i / job->request.n];

        TRY_OUT(kvs_detokenizer_create(&a->written[i].pieces, source->tokenizer, NULL, 0, err));
        if (job->request.echo)
            continue;
        for (size_t p = 0; p < prompt->count; p++)
            if ((size_t)prompt->ids[p] < kvs_tokenizer_vocab(source->tokenizer))
                TRY_OUT(kvs_detokenizer_skip(a->written[i].pieces, prompt->ids + p, 1, err));
    }
    *out = a;
    a = NULL;
out:
    kvsi_answer_free(a);
    return st;
}

void kvsi_answer_free(kvsi_answer *a)
{
    if (!a)
        return;
    for (size_t i = 0; a->written && i < a->job->prompt_count * a->job->request.n; i++)
        kvs_detokenizer_free(a->written[i].pieces);
    kvsi_free(a->written);
    kvsi_free(a);
}

/* ---- log-probabilities ----------------------------------------------------------------------- */

/* One token of an answer with its alternatives. */
typedef struct scored_token {
    int32_t id;
    double logprob; /* NaN = the first token of a prompt */
    size_t top;
    const int32_t *top_ids;
    const double *top_logprobs;
} scored_token;

/* Token `index` of prompt (with echo) and answer. */
static scored_token token_at(const kvsi_answer *a, const kvsi_choice *c, size_t index)
{
    const kvsi_job_prompt *prompt = &a->job->prompts[c->prompt];
    const kvsi_scores *s = &prompt->scores;
    const size_t top = a->job->request.top;
    const size_t before = a->job->request.echo ? prompt->count : 0;

    if (index >= before) {
        const size_t i = index - before;

        return (scored_token){c->ids[i], c->logprobs[i], top, top > 0 ? c->top_ids + i * top : NULL,
                              top > 0 ? c->top_logprobs + i * top : NULL};
    }
    if (index == 0)
        return (scored_token){.id = prompt->ids[0], .logprob = NAN};
    /* The alternatives to a token are the best ones after the token before it. */
    return (scored_token){prompt->ids[index], s->own[index], top, s->top_ids + (index - 1) * s->top,
                          s->top_logprobs + (index - 1) * s->top};
}

/* The text that the token adds; the last one has everything that is left. */
static void add_piece(kvsi_text *out, const kvsi_answer *a, written *w, int32_t id, int is_last)
{
    const char *text = NULL;
    size_t size = 0;

    if ((size_t)id < kvs_tokenizer_vocab(a->source->tokenizer) &&
        kvs_detokenizer_add(&text, &size, w->pieces, &id, 1, NULL) == KVS_OK)
        kvsi_text_add_bytes(out, text ? text : "", size);
    if (is_last && kvs_detokenizer_finish(&text, &size, w->pieces, NULL) == KVS_OK)
        kvsi_text_add_bytes(out, text ? text : "", size);
}

static size_t characters(const char *text, size_t size)
{
    size_t count = 0;
    uint32_t code;

    for (size_t at = 0; at < size; count++)
        at += kvsi_utf8_next(text + at, size - at, &code);
    return count;
}

/* {"text": log-probability} of the chosen token and of its alternatives.  Of tokens with the same
 * text the chosen one counts, then the likeliest. */
static void add_top_object(kvsi_text *out, const kvsi_answer *a, const scored_token *t,
                           const kvsi_text *piece)
{
    kvsi_text names[KVSI_TOP_MAX] = {{0}};

    kvsi_text_add(out, "{");
    kvsi_json_add_string(out, piece->data, piece->length);
    kvsi_text_add(out, ":");
    kvsi_json_add_logprob(out, t->logprob);
    for (size_t i = 0; i < t->top; i++) {
        int is_new = t->top_ids[i] >= 0 && t->top_ids[i] != t->id;
        kvsi_text *key = &names[i];

        kvsi_text_add(key, "");
        kvsi_token_text(key, a->source, t->top_ids[i]);
        is_new =
            is_new && !key->failed &&
            !(key->length == piece->length && memcmp(key->data, piece->data, key->length) == 0);
        for (size_t other = 0; is_new && other < i; other++)
            is_new = strcmp(key->data, names[other].data ? names[other].data : "") != 0;
        if (!is_new)
            continue;
        kvsi_text_add(out, ",");
        kvsi_json_add_string(out, key->data, key->length);
        kvsi_text_add(out, ":");
        kvsi_json_add_logprob(out, t->top_logprobs[i]);
    }
    for (size_t i = 0; i < t->top; i++)
        kvsi_text_release(&names[i]);
    kvsi_text_add(out, "}");
}

/* The object of /v1/completions: four lists over the tokens from `from` to `to` - 1. */
static void add_logprob_lists(kvsi_text *out, const kvsi_answer *a, const kvsi_choice *c,
                              written *w, size_t from, size_t to, size_t last)
{
    kvsi_text tokens = {0}, values = {0}, tops = {0}, offsets = {0};

    for (size_t i = from; i < to; i++) {
        const scored_token t = token_at(a, c, i);
        const char *comma = i > from ? "," : "";
        kvsi_text piece = {0};

        kvsi_text_add(&piece, "");
        add_piece(&piece, a, w, t.id, i == last);
        kvsi_text_add(&tokens, comma);
        kvsi_json_add_string(&tokens, piece.data, piece.length);
        kvsi_text_format(&offsets, "%s%zu", comma, w->offset);
        w->offset += characters(piece.data, piece.length);
        kvsi_text_add(&values, comma);
        kvsi_text_add(&tops, comma);
        if (isnan(t.logprob)) {
            kvsi_text_add(&values, "null");
            kvsi_text_add(&tops, "null");
        } else {
            kvsi_json_add_logprob(&values, t.logprob);
            add_top_object(&tops, a, &t, &piece);
        }
        out->failed |= piece.failed;
        kvsi_text_release(&piece);
    }
    kvsi_text_add(out, "{\"tokens\":[");
    kvsi_text_add(out, tokens.data ? tokens.data : "");
    kvsi_text_add(out, "],\"token_logprobs\":[");
    kvsi_text_add(out, values.data ? values.data : "");
    kvsi_text_add(out, "],\"top_logprobs\":[");
    kvsi_text_add(out, tops.data ? tops.data : "");
    kvsi_text_add(out, "],\"text_offset\":[");
    kvsi_text_add(out, offsets.data ? offsets.data : "");
    kvsi_text_add(out, "]}");
    out->failed |= tokens.failed | values.failed | tops.failed | offsets.failed;
    kvsi_text_release(&tokens);
    kvsi_text_release(&values);
    kvsi_text_release(&tops);
    kvsi_text_release(&offsets);
}

/* "token", "logprob" and "bytes" of one token of a chat; the bytes are those of the token alone, of
 * which `piece` may lack some that do not make a character. */
static void add_token_members(kvsi_text *out, const kvsi_answer *a, int32_t id, double logprob,
                              const kvsi_text *piece)
{
    kvsi_text bytes = {0};

    kvsi_text_add(&bytes, "");
    kvsi_token_text(&bytes, a->source, id);
    kvsi_text_add(out, "\"token\":");
    if (piece)
        kvsi_json_add_string(out, piece->data, piece->length);
    else
        kvsi_json_add_string(out, bytes.data, bytes.length);
    kvsi_text_add(out, ",\"logprob\":");
    kvsi_json_add_logprob(out, logprob);
    kvsi_text_add(out, ",\"bytes\":[");
    for (size_t i = 0; i < bytes.length; i++)
        kvsi_text_format(out, i > 0 ? ",%d" : "%d", (int)(unsigned char)bytes.data[i]);
    kvsi_text_add(out, "]");
    out->failed |= bytes.failed;
    kvsi_text_release(&bytes);
}

/* The object of chats: one object for each token. */
static void add_logprob_content(kvsi_text *out, const kvsi_answer *a, const kvsi_choice *c,
                                written *w, size_t from, size_t to, size_t last)
{
    kvsi_text_add(out, "{\"content\":[");
    for (size_t i = from; i < to; i++) {
        const scored_token t = token_at(a, c, i);
        kvsi_text piece = {0};

        kvsi_text_add(&piece, "");
        add_piece(&piece, a, w, t.id, i == last);
        kvsi_text_add(out, i > from ? ",{" : "{");
        add_token_members(out, a, t.id, t.logprob, &piece);
        kvsi_text_add(out, ",\"top_logprobs\":[");
        for (size_t k = 0; k < t.top && t.top_ids[k] >= 0; k++) {
            kvsi_text_add(out, k > 0 ? ",{" : "{");
            add_token_members(out, a, t.top_ids[k], t.top_logprobs[k], NULL);
            kvsi_text_add(out, "}");
        }
        kvsi_text_add(out, "]}");
        kvsi_text_release(&piece);
    }
    kvsi_text_add(out, "],\"refusal\":null}");
}

/* Appends ,"logprobs": of everything that is new. */
static void add_logprobs(kvsi_text *out, const kvsi_answer *a, const kvsi_choice *c, written *w)
{
    const size_t before = a->job->request.echo ? a->job->prompts[c->prompt].count : 0;
    const size_t last = c->is_done ? before + c->count - 1 : SIZE_MAX;

    kvsi_text_add(out, ",\"logprobs\":");
    if (!a->job->request.logprobs)
        kvsi_text_add(out, "null");
    else
        (is_chat(a) ? add_logprob_content : add_logprob_lists)(out, a, c, w, w->prompt + w->tokens,
                                                               before + c->count, last);
    w->prompt = before;
    w->tokens = c->count;
}

/* ---- choices --------------------------------------------------------------------------------- */

/* The prompt as it was given, or the text of its ids. */
static void add_prompt_text(kvsi_text *out, const kvsi_answer *a, const kvsi_choice *c)
{
    const kvsi_prompt *given = &a->job->request.prompts[c->prompt];
    const kvsi_job_prompt *prompt = &a->job->prompts[c->prompt];
    int32_t *known;
    char *text = NULL;
    size_t size = 0, count = 0;

    if (given->text) {
        kvsi_text_add_bytes(out, given->text, given->size);
        return;
    }
    known = kvsi_alloc(prompt->count, sizeof *known);
    for (size_t i = 0; known && i < prompt->count; i++)
        if ((size_t)prompt->ids[i] < kvs_tokenizer_vocab(a->source->tokenizer))
            known[count++] = prompt->ids[i];
    if (known &&
        kvs_tokenizer_decode(&text, &size, a->source->tokenizer, known, count, NULL) == KVS_OK)
        kvsi_text_add_bytes(out, text, size);
    else
        out->failed = 1;
    kvs_text_free(text);
    kvsi_free(known);
}

/* The new text of a choice as a string. */
static void add_new_text(kvsi_text *out, const kvsi_answer *a, const kvsi_choice *c, written *w)
{
    kvsi_text text = {0};

    kvsi_text_add(&text, "");
    if (a->job->request.echo && w->prompt == 0)
        add_prompt_text(&text, a, c);
    if (c->text.length > w->text)
        kvsi_text_add_bytes(&text, c->text.data + w->text, c->text.length - w->text);
    w->text = c->text.length;
    kvsi_json_add_string(out, text.data, text.length);
    out->failed |= text.failed;
    kvsi_text_release(&text);
}

static void add_ending(kvsi_text *out, const kvsi_choice *c)
{
    if (!c->is_done) {
        kvsi_text_add(out, ",\"finish_reason\":null");
        return;
    }
    kvsi_text_format(out, ",\"finish_reason\":\"%s\",\"stop_reason\":",
                     c->ending == KVSI_ENDED_LENGTH ? "length" : "stop");
    if (c->ending == KVSI_ENDED_ID)
        kvsi_text_format(out, "%d", (int)c->ids[c->count - 1]);
    else
        kvsi_json_add_text(out, c->stop_text);
}

/* The ids of the prompt, where an answer begins, and those that are new. */
static void add_ids(kvsi_text *out, const kvsi_answer *a, const kvsi_choice *c, size_t from,
                    int with_prompt)
{
    const kvsi_job_prompt *prompt = &a->job->prompts[c->prompt];

    if (!a->job->request.return_ids)
        return;
    if (with_prompt) {
        kvsi_text_add(out, ",\"prompt_token_ids\":");
        kvsi_json_add_ids(out, prompt->ids, prompt->count);
    }
    kvsi_text_add(out, ",\"token_ids\":");
    kvsi_json_add_ids(out, c->ids + from, c->count - from);
}

static void add_choice(kvsi_text *out, const kvsi_answer *a, const kvsi_choice *c, written *w)
{
    const size_t index = (size_t)(c - a->job->choices), from = w->tokens;
    const int begins = !w->is_begun;

    kvsi_text_format(out, "{\"index\":%zu,", index);
    if (!is_chat(a)) {
        kvsi_text_add(out, "\"text\":");
        add_new_text(out, a, c, w);
    } else if (a->job->request.stream) {
        kvsi_text_add(out, "\"delta\":{");
        if (c->text.length > w->text) {
            kvsi_text_add(out, "\"content\":");
            add_new_text(out, a, c, w);
        }
        kvsi_text_add(out, "}");
    } else {
        kvsi_text_add(out, "\"message\":{\"role\":\"assistant\",\"content\":");
        add_new_text(out, a, c, w);
        kvsi_text_add(out, "}");
    }
    add_logprobs(out, a, c, w);
    add_ending(out, c);
    add_ids(out, a, c, from, begins);
    kvsi_text_add(out, "}");
    w->is_begun = 1;
    w->is_ended = c->is_done;
}

/* ---- whole objects --------------------------------------------------------------------------- */

static void add_head(kvsi_text *out, const kvsi_answer *a)
{
    const char *kind = !is_chat(a)              ? "text_completion"
                       : a->job->request.stream ? "chat.completion.chunk"
                                                : "chat.completion";

    kvsi_text_format(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", a->id,
                     kind, a->created);
    kvsi_json_add_text(out, a->source->model);
    kvsi_text_format(out, ",\"system_fingerprint\":\"%s\"", a->source->fingerprint);
}

static double rate(size_t count, double seconds)
{
    return seconds > 0 ? (double)count / seconds : 0;
}

/* Appends "seed", "usage" and "timings".  The rate of generation leaves out the first token, which
 * is part of the prompt's time. */
static void add_tail(kvsi_text *out, const kvsi_answer *a)
{
    const kvsi_job *job = a->job;
    const double first = job->first_token > 0 ? job->first_token : kvsi_clock_seconds();
    const double prompt_seconds = first - job->started;
    const double seconds = kvsi_clock_seconds() - first;
    size_t tokens = 0;

    for (size_t i = 0; i < job->prompt_count; i++)
        tokens += job->prompts[i].count;
    kvsi_text_format(out,
                     ",\"seed\":%lld,\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,"
                     "\"total_tokens\":%zu,\"prompt_tokens_details\":{\"cached_tokens\":%zu}}",
                     (long long)job->request.seed, tokens, job->generated, tokens + job->generated,
                     job->cached);
    kvsi_text_format(out,
                     ",\"timings\":{\"cache_n\":%zu,\"prompt_n\":%zu,\"prompt_ms\":%.3f,"
                     "\"prompt_per_second\":%.3f,\"predicted_n\":%zu,\"predicted_ms\":%.3f,"
                     "\"predicted_per_second\":%.3f}",
                     job->cached, tokens - job->cached, prompt_seconds * 1e3,
                     rate(tokens - job->cached, prompt_seconds), job->generated, seconds * 1e3,
                     rate(job->generated > 0 ? job->generated - 1 : 0, seconds));
}

void kvsi_answer_whole(kvsi_text *out, kvsi_answer *a)
{
    add_head(out, a);
    kvsi_text_add(out, ",\"choices\":[");
    for (size_t i = 0; i < a->job->choice_count; i++) {
        kvsi_text_add(out, i > 0 ? "," : "");
        add_choice(out, a, &a->job->choices[i], &a->written[i]);
    }
    kvsi_text_add(out, "]");
    add_tail(out, a);
    kvsi_text_add(out, "}\n");
}

/* ---- events ---------------------------------------------------------------------------------- */

static void add_role(kvsi_text *out, const kvsi_answer *a, const kvsi_choice *c)
{
    kvsi_text_add(out, "data: ");
    add_head(out, a);
    kvsi_text_format(out,
                     ",\"choices\":[{\"index\":%zu,\"delta\":{\"role\":\"assistant\","
                     "\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n",
                     (size_t)(c - a->job->choices));
}

void kvsi_answer_part(kvsi_text *out, kvsi_answer *a, const kvsi_choice *c)
{
    const kvsi_request *r = &a->job->request;
    written *w = &a->written[c - a->job->choices];
    const int has_news = c->text.length > w->text || c->is_done ||
                         (c->count > w->tokens && (r->logprobs || r->return_ids)) ||
                         (r->echo && w->prompt == 0);

    if (!has_news || w->is_ended)
        return;
    if (is_chat(a) && !w->is_begun)
        add_role(out, a, c);
    kvsi_text_add(out, "data: ");
    add_head(out, a);
    kvsi_text_add(out, ",\"choices\":[");
    add_choice(out, a, c, w);
    kvsi_text_add(out, "]}\n\n");
}

void kvsi_answer_end(kvsi_text *out, kvsi_answer *a)
{
    if (a->job->refusal.status != 0) {
        kvsi_text_add(out, "data: ");
        kvsi_refusal_write(out, &a->job->refusal);
        kvsi_text_add(out, "\n\n");
        return;
    }
    if (a->job->request.include_usage) {
        kvsi_text_add(out, "data: ");
        add_head(out, a);
        kvsi_text_add(out, ",\"choices\":[]");
        add_tail(out, a);
        kvsi_text_add(out, "}\n\n");
    }
    kvsi_text_add(out, "data: [DONE]\n\n");
}
