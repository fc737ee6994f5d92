/* kvshift score: log-probabilities of the tokens of a continuation. */
#include "base/files.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/model_input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_LIMIT = 1 << 26 }; /* bytes */

typedef struct settings {
    kvsi_model_input input;
    const char *context, *continuation, *ids, *continuation_ids, *file;
    int step_by_step, truncate, quiet, json;
} settings;

#define FIELD(name) offsetof(settings, name)

/* clang-format off */
static const kvsi_setting rows[] = {
    KVSI_MODEL_ROWS(settings),
    {.name = "context", .kind = KVSI_SETTING_TEXT, .offset = FIELD(context), .group = "Input",
     .placeholder = "TEXT", .help = "text before the continuation", .may_be_empty = 1,
     .automatic = "empty: BOS, or EOS if there is no BOS"},
    {.name = "continuation", .kind = KVSI_SETTING_TEXT, .offset = FIELD(continuation),
     .group = "Input", .placeholder = "TEXT", .help = "text to score",
     .automatic = "JSON lines, from --file or standard input"},
    {.name = "ids", .kind = KVSI_SETTING_TEXT, .offset = FIELD(ids), .group = "Input",
     .placeholder = "N,...", .help = "the context as token ids; nothing is added to them"},
    {.name = "continuation-ids", .kind = KVSI_SETTING_TEXT, .offset = FIELD(continuation_ids),
     .group = "Input", .placeholder = "N,...", .help = "the continuation as token ids"},
    {.name = "file", .letter = 'f', .kind = KVSI_SETTING_TEXT, .offset = FIELD(file),
     .group = "Input", .placeholder = "FILE", .help = "file of JSON lines; - = standard input"},
    {.name = "step-by-step", .kind = KVSI_SETTING_FLAG, .offset = FIELD(step_by_step),
     .group = "Measure", .help = "feed one token at a time, as generate does"},
    {.name = "truncate", .kind = KVSI_SETTING_FLAG, .offset = FIELD(truncate), .group = "Measure",
     .help = "drop the first tokens of input that is longer than the model's context"},
    KVSI_RUN_ROWS(settings),
    {.name = "quiet", .kind = KVSI_SETTING_FLAG, .offset = FIELD(quiet), .group = "Run",
     .help = "no progress"},
    {.name = "json", .kind = KVSI_SETTING_FLAG, .offset = FIELD(json), .group = "Run",
     .help = "accepted for consistency; results are always JSON lines"},
};
/* clang-format on */

static const kvsi_command_options options = {
    .command = "kvshift score",
    .examples =
        "  kvshift score -m runs/book --context \"It was the best of\" --continuation \" times\"\n"
        "  kvshift score -m runs/book -f requests.jsonl --json\n",
    .purpose = "Computes the log-probabilities of a continuation after its context.",
    .notes =
        "A line of input is {\"context\": TEXT, \"continuation\": TEXT} or {\"ids\": [...],\n"
        "\"continuation_ids\": [...]}; other keys are ignored.  Each line of input gives one line\n"
        "of output with logprobs (natural logarithm), sum, greedy (every token is the most likely\n"
        "one), tokens, context_tokens and ids (of the continuation).  A line that cannot be "
        "scored\n"
        "ends the command; results of earlier lines are printed.\n"
        "\n"
        "Texts are split as in lm-evaluation-harness: spaces at the end of the context move to "
        "the\n"
        "continuation; both texts are encoded together, and the tokens after those of the context\n"
        "alone are the continuation.  Input with more tokens than the model's context plus 1 is\n"
        "refused; with --truncate its last tokens are scored, as there, and \"dropped\" is the "
        "number\n"
        "of tokens before them.",
    .tables = KVSI_OPTIONS(rows),
    .takes_config = 1,
};

/* ---- one request ----------------------------------------------------------------------------- */

/* The ids of the context, followed by those of the continuation. */
typedef struct request {
    int32_t *ids;
    size_t count, context_count;
    size_t dropped; /* ids at the start of the context that --truncate leaves out */
} request;

static kvs_status join(request *out, const int32_t *context, size_t context_count,
                       const int32_t *continuation, size_t count, kvs_err *err)
{
    out->ids = kvsi_alloc(context_count + count, sizeof *out->ids);
    if (out->ids) {
        memcpy(out->ids, context, context_count * sizeof *context);
        memcpy(out->ids + context_count, continuation, count * sizeof *continuation);
    }
    out->context_count = context_count;
    out->count = context_count + count;
    return out->ids ? KVS_OK : kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu ids", out->count);
}

typedef struct scorer {
    const settings *s;
    const kvsi_loaded_model *m;
    kvs_session *session;
} scorer;

/* Keeps the last ids that fit: the model is fed all but the last one. */
static kvs_status truncate_request(request *r, size_t capacity, kvs_err *err)
{
    const size_t continuation = r->count - r->context_count;

    if (continuation > capacity)
        return kvsi_fail(err, KVS_E_LIMIT,
                         "the continuation has %zu tokens, expected at most %zu, which the model "
                         "takes",
                         continuation, capacity);
    if (r->count > capacity + 1)
        r->dropped = r->count - capacity - 1;
    return KVS_OK;
}

static kvs_status print_scores(const scorer *c, const request *r, const double *logprobs,
                               double sum, int greedy, kvs_err *err)
{
    const size_t count = r->count - r->context_count;
    json_t *line =
        json_pack("{s:o, s:o, s:b, s:I, s:I, s:o}", "logprobs", kvsi_json_numbers(logprobs, count),
                  "sum", kvsi_json_number(sum), "greedy", greedy, "tokens", (json_int_t)count,
                  "context_tokens", (json_int_t)(r->context_count - r->dropped), "ids",
                  kvsi_json_ids(r->ids + r->context_count, count));

    if (c->s->truncate)
        json_object_set_new(line, "dropped", json_integer((json_int_t)r->dropped));
    return kvsi_cli_print_json_line(line, err);
}

static kvs_status score(const scorer *c, request *r, kvs_err *err)
{
    const unsigned flags = c->s->step_by_step ? KVS_SCORE_STEP_BY_STEP : 0;
    double *logprobs, sum;
    int greedy;
    kvs_status st;

    if (c->s->truncate)
        TRY(truncate_request(r, kvs_session_capacity(c->session), err));
    logprobs = kvsi_alloc(r->count, sizeof *logprobs);
    if (!logprobs)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu scores", r->count);
    TRY_OUT(kvs_score(&sum, &greedy, logprobs, c->session, r->ids + r->dropped,
                      r->count - r->dropped, r->context_count - r->dropped, flags, err));
    TRY_OUT(print_scores(c, r, logprobs, sum, greedy, err));
out:
    kvsi_free(logprobs);
    return st;
}

static kvs_status request_of_texts(request *out, const kvs_tokenizer *tokenizer,
                                   const char *context, size_t context_size,
                                   const char *continuation, size_t size, kvs_err *err)
{
    if (!tokenizer)
        return kvsi_fail(err, KVS_E_INVALID, "texts need a tokenizer; give one with -t");
    return kvs_tokenizer_encode_pair(&out->ids, &out->count, &out->context_count, tokenizer,
                                     context, context_size, continuation, size, err);
}

/* ---- from the command line ------------------------------------------------------------------- */

static kvs_status score_options(const scorer *c, kvs_err *err)
{
    const settings *s = c->s;
    const char *context = s->context ? s->context : "";
    int32_t *first = NULL, *second = NULL;
    size_t first_count, second_count;
    request r = {0};
    kvs_status st;

    if (s->continuation) {
        TRY_OUT(request_of_texts(&r, c->m->tokenizer, context, strlen(context), s->continuation,
                                 strlen(s->continuation), err));
    } else {
        TRY_OUT(kvsi_read_ids(&first, &first_count, s->ids ? s->ids : "", err));
        TRY_OUT(kvsi_read_ids(&second, &second_count, s->continuation_ids, err));
        TRY_OUT(join(&r, first, first_count, second, second_count, err));
    }
    TRY_OUT(score(c, &r, err));
out:
    kvsi_free(first);
    kvsi_free(second);
    kvs_ids_free(r.ids);
    return st;
}

/* ---- JSON lines ------------------------------------------------------------------------------ */

static kvs_status ids_of_json(int32_t **out, size_t *count, const json_t *object, const char *key,
                              const char *what, kvs_err *err)
{
    const json_t *list = json_object_get(object, key);

    TRY(kvsi_json_require(object, key, what, err));
    if (!json_is_array(list))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected an array of ids", what, key);
    *count = json_array_size(list);
    *out = kvsi_alloc(*count, sizeof **out);
    if (!*out)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu ids", *count);
    for (size_t i = 0; i < *count; i++) {
        const json_t *id = json_array_get(list, i);
        const json_int_t number = json_integer_value(id);

        if (!json_is_integer(id) || number < 0 || number > INT32_MAX)
            return kvsi_fail(err, KVS_E_FORMAT,
                             "'%s': key '%s': expected whole numbers of at least 0, element "
                             "%zu is not one",
                             what, key, i);
        (*out)[i] = (int32_t)number;
    }
    return KVS_OK;
}

static kvs_status request_of_ids(request *out, const json_t *object, const char *what, kvs_err *err)
{
    int32_t *first = NULL, *second = NULL;
    size_t first_count, second_count;
    kvs_status st;

    TRY_OUT(ids_of_json(&first, &first_count, object, "ids", what, err));
    TRY_OUT(ids_of_json(&second, &second_count, object, "continuation_ids", what, err));
    TRY_OUT(join(out, first, first_count, second, second_count, err));
out:
    kvsi_free(first);
    kvsi_free(second);
    return st;
}

static kvs_status request_of_json(request *out, const kvs_tokenizer *tokenizer,
                                  const json_t *object, const char *what, kvs_err *err)
{
    const char *context = "", *continuation = NULL;

    if (json_object_get(object, "ids") || json_object_get(object, "continuation_ids"))
        return request_of_ids(out, object, what, err);
    TRY(kvsi_json_require(object, "continuation", what, err));
    TRY(kvsi_json_get_text(&context, object, "context", what, err));
    TRY(kvsi_json_get_text(&continuation, object, "continuation", what, err));
    return request_of_texts(out, tokenizer, context, strlen(context), continuation,
                            strlen(continuation), err);
}

static const char *name_of(const scorer *c)
{
    const char *path = c->s->file;

    return path && strcmp(path, "-") != 0 ? path : "standard input";
}

static kvs_status score_line(const scorer *c, const char *line, size_t size, size_t number,
                             kvs_err *err)
{
    json_t *object = NULL;
    request r = {0};
    char what[256];
    kvs_status st;

    snprintf(what, sizeof what, "%.200s line %zu", name_of(c), number);
    TRY_OUT(kvsi_json_parse(&object, line, size, what, err));
    TRY_OUT(request_of_json(&r, c->m->tokenizer, object, what, err));
    TRY_OUT(score(c, &r, err));
out:
    json_decref(object);
    kvs_ids_free(r.ids);
    return st;
}

/* Adds the file and the line to the message, unless they are there. */
static kvs_status name_line(const scorer *c, size_t number, kvs_status st, kvs_err *err)
{
    const kvs_err cause = *err;
    char where[256];

    snprintf(where, sizeof where, "'%.200s line %zu'", name_of(c), number);
    if (strncmp(cause.message, where, strlen(where)) == 0)
        return st;
    return kvsi_fail(err, st, "%s: %.300s", where, cause.message);
}

static kvs_status score_lines(const scorer *c, FILE *file, kvs_err *err)
{
    const int shows = !c->s->quiet && isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO);
    const char *name = name_of(c);
    kvsi_text line = {0};
    size_t number = 0;
    int found = 1;
    kvs_status st = KVS_OK;

    while (st == KVS_OK) {
        st = kvsi_read_line(&line, &found, file, name, LINE_LIMIT, err);
        if (st == KVS_OK && !found)
            break;
        number++;
        if (st == KVS_OK && strspn(line.data, " \t\r\n") < line.length)
            st = score_line(c, line.data, line.length, number, err);
        if (shows)
            fprintf(stderr, "\r%zu lines", number);
    }
    if (shows && number > 0)
        fputc('\n', stderr);
    if (st != KVS_OK)
        st = name_line(c, number, st, err);
    kvsi_text_release(&line);
    return st;
}

static kvs_status score_file(const scorer *c, kvs_err *err)
{
    const char *path = c->s->file;
    FILE *file = stdin;
    kvs_status st;

    if (path && strcmp(path, "-") != 0)
        file = fopen(path, "r");
    if (!file)
        return kvsi_fail(err, KVS_E_IO, "cannot open '%s': %s", path, strerror(errno));
    st = score_lines(c, file, err);
    if (file != stdin)
        fclose(file);
    return st;
}

/* ---- the command ----------------------------------------------------------------------------- */

static kvs_status check_settings(const settings *s, kvs_err *err)
{
    const int texts = s->context || s->continuation, ids = s->ids || s->continuation_ids;

    if (texts + ids + (s->file != NULL) > 1)
        return kvsi_fail(err, KVS_E_INVALID,
                         "texts ('--context', '--continuation'), ids ('--ids', "
                         "'--continuation-ids') and '--file' exclude each other");
    if (s->context && !s->continuation)
        return kvsi_fail(err, KVS_E_INVALID, "option '--context' needs '--continuation'");
    if (s->ids && !s->continuation_ids)
        return kvsi_fail(err, KVS_E_INVALID, "option '--ids' needs '--continuation-ids'");
    return KVS_OK;
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    const settings *s = data;
    kvsi_loaded_model loaded = {0};
    scorer c = {.s = s, .m = &loaded};
    const kvs_session_options how = {.size = sizeof(kvs_session_options),
                                     .cache = s->input.kv_cache};
    kvs_status st;

    (void)call;
    TRY_OUT(check_settings(s, err));
    TRY_OUT(kvsi_model_input_load(&loaded, &s->input, s->continuation != NULL, err));
    TRY_OUT(kvsi_check_cache(loaded.model, &how, 1, "--kv-cache", err));
    TRY_OUT(kvs_session_create(&c.session, loaded.model, &how, err));
    if (s->continuation || s->continuation_ids)
        TRY_OUT(score_options(&c, err));
    else
        TRY_OUT(score_file(&c, err));
out:
    kvs_session_free(c.session);
    kvsi_loaded_model_release(&loaded);
    return st;
}

const kvsi_command kvsi_cmd_score = {
    .name = "score",
    .summary = "compute the probability of a continuation of a text",
    .options = &options,
    .settings_size = sizeof(settings),
    .run = run,
};
