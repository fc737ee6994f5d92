/* kvshift ppl: loss and perplexity of texts. */
#include "base/checksum.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text_files.h"
#include "cli/cli.h"
#include "cli/configs.h"
#include "cli/model_input.h"
#include "cli/progress.h"
#include "cli/train_folder.h"
#include "kvshift/kvshift_files.h"
#include "kvshift/kvshift_lab.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    FILES_MAX = 100000,
    SOURCES_LIMIT = 1 << 28, /* bytes of sources.json */
};

typedef struct settings {
    kvsi_model_input input;
    const char *data, *field, *against, *svg;
    size_t window, stride;
    int positions, json, quiet;
} settings;

#define FIELD(name) offsetof(settings, name)

/* clang-format off */
static const kvsi_setting rows[] = {
    KVSI_MODEL_ROWS(settings),
    {.name = "data", .kind = KVSI_SETTING_TEXT, .offset = FIELD(data), .group = "Input",
     .placeholder = "PATH", .help = "measure the held-out validation split of a corpus, or the "
     "last 5 % of a .bin, instead of files"},
    {.name = "field", .kind = KVSI_SETTING_TEXT, .offset = FIELD(field), .group = "Input",
     .placeholder = "NAME", .help = "field of a .jsonl line that holds the text",
     .automatic = "text"},
    {.name = "against", .kind = KVSI_SETTING_TEXT, .offset = FIELD(against), .group = "Measure",
     .placeholder = "MODEL",
     .help = "also compare predictions with those of this model, which must "
     "have the same tokenizer: for example the model before quantization"},
    {.name = "window", .kind = KVSI_SETTING_SIZE, .offset = FIELD(window), .group = "Measure",
     .placeholder = "N", .help = "maximum number of tokens before a predicted token",
     .low = 1,
     .automatic = "the model's context"},
    {.name = "stride", .kind = KVSI_SETTING_SIZE, .offset = FIELD(stride), .group = "Measure",
     .placeholder = "N", .help = "distance between the starts of two windows, in tokens",
     .low = 1,
     .automatic = "half of --window"},
    {.name = "positions", .kind = KVSI_SETTING_FLAG, .offset = FIELD(positions),
     .group = "Measure", .help = "measure the loss by position instead, in windows that do not "
     "overlap, and the in-context learning score: the loss at token 500 minus that at token 50"},
    {.name = "svg", .kind = KVSI_SETTING_TEXT, .offset = FIELD(svg), .group = "Measure",
     .placeholder = "FILE", .help = "with --positions: draw the loss against the position; needs "
     "gnuplot"},
    KVSI_RUN_ROWS(settings),
    {.name = "quiet", .kind = KVSI_SETTING_FLAG, .offset = FIELD(quiet), .group = "Run",
     .help = "no progress"},
    {.name = "json", .kind = KVSI_SETTING_FLAG, .offset = FIELD(json), .group = "Run",
     .help = "print the result as one JSON object"},
};
/* clang-format on */

static const kvsi_command_options options = {
    .command = "kvshift ppl",
    .examples = "  kvshift ppl -m runs/book --data corpora/book\n"
                "  kvshift ppl -m model.gguf new-text.txt\n"
                "  kvshift ppl -m model-q4.gguf --against model text.txt\n",
    .purpose = "Measures loss and perplexity of texts, per token and per byte, with the standard "
               "error of the mean.  Every token except the first of a text is predicted once.",
    .notes =
        "Each FILE is one text; each line of a .jsonl file and each object of a .json file is one "
        "text.  Files may be compressed (.gz, .zst).  A folder stands for the texts in it, and - "
        "for standard\ninput, where text, JSON and compression are recognized.  Per-token values "
        "can only be compared between models with\nthe same tokenizer, per-byte values between all "
        "models.",
    .argument = "FILE",
    .max_arguments = FILES_MAX,
    .tables = KVSI_OPTIONS(rows),
    .takes_config = 1,
};

/* ---- texts ----------------------------------------------------------------------------------- */

/* The ids of all texts, end to end. */
typedef struct texts {
    int32_t *ids;
    size_t count, capacity;
    size_t *starts; /* [texts + 1] */
    size_t texts, starts_capacity;
    uint64_t bytes;        /* of all of them */
    uint64_t unscored;     /* bytes of the first token of each text, which is not predicted */
    uint64_t checksum;     /* of the bytes, or of a corpus's ids */
    int bytes_are_unknown; /* a corpus without a tokenizer */
    json_t *sources;       /* sources.json of the model's run; NULL = not known */
    kvsi_text_files files; /* that were read */
    const char *learned;   /* the first of them that is a source; NULL = none */
} texts;

static void release(texts *t)
{
    kvsi_free(t->ids);
    kvsi_free(t->starts);
    json_decref(t->sources);
    kvsi_text_files_release(&t->files);
}

static kvs_status no_memory(size_t count, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu tokens", count);
}

/* Grows t->ids to hold `more` ids. */
static kvs_status reserve(texts *t, size_t more, kvs_err *err)
{
    const size_t need = t->count + more, capacity = need > 2 * t->capacity ? need : 2 * t->capacity;
    int32_t *ids;

    if (need <= t->capacity)
        return KVS_OK;
    ids = kvsi_alloc(capacity, sizeof *ids);
    if (!ids)
        return no_memory(capacity, err);
    if (t->count > 0)
        memcpy(ids, t->ids, t->count * sizeof *ids);
    kvsi_free(t->ids);
    t->ids = ids;
    t->capacity = capacity;
    return KVS_OK;
}

/* Adds the bytes of the text of the ids to *out. */
static kvs_status count_bytes(uint64_t *out, const kvs_tokenizer *tokenizer, const int32_t *ids,
                              size_t count, kvs_err *err)
{
    char *text;
    size_t size;
    const kvs_status st = kvs_tokenizer_decode(&text, &size, tokenizer, ids, count, err);

    if (st == KVS_OK)
        *out += size;
    kvs_text_free(text);
    return st;
}

/* The text files that the model was trained on: sources.json in its folder, or, for a checkpoint,
 * in the run's folder two levels up.  A new reference; NULL = not known. */
static json_t *sources_of(const char *model)
{
    static const char *const places[] = {"", "../../"};
    json_t *sources = NULL;

    for (size_t i = 0; !sources && i < sizeof places / sizeof *places; i++) {
        char name[64], *path;

        snprintf(name, sizeof name, "%s%s", places[i], kvsi_sources_file);
        path = kvsi_path_join(model, name);
        if (path && kvsi_is_folder(model) && kvsi_file_exists(path))
            kvsi_json_read(&sources, path, SOURCES_LIMIT, NULL);
        kvsi_free(path);
    }
    return sources;
}

/* Whether a file with this checksum is among the sources.  Perplexity on training text is too
 * low. */
static int is_source(const json_t *sources, uint64_t checksum)
{
    char sum[KVSI_CHECKSUM_TEXT];
    const json_t *source;
    size_t i;

    kvsi_checksum_print(sum, checksum);
    json_array_foreach(json_object_get(sources, "sources"), i, source) {
        const char *known = json_string_value(json_object_get(source, "checksum"));

        if (known && strcmp(known, sum) == 0)
            return 1;
    }
    return 0;
}

/* Marks the end of a text after the ids collected so far. */
static kvs_status end_text(texts *t, kvs_err *err)
{
    const size_t capacity = 2 * t->starts_capacity + 2;
    size_t *starts;

    if (t->texts + 1 >= t->starts_capacity) {
        starts = kvsi_alloc(capacity, sizeof *starts);
        if (!starts)
            return no_memory(capacity, err);
        if (t->texts > 0)
            memcpy(starts, t->starts, (t->texts + 1) * sizeof *starts);
        kvsi_free(t->starts);
        t->starts = starts;
        t->starts_capacity = capacity;
    }
    t->starts[++t->texts] = t->count;
    return KVS_OK;
}

static kvs_status add_text(texts *t, const kvs_tokenizer *tokenizer, const char *text, size_t size,
                           kvsi_checksum_stream *sum, kvs_err *err)
{
    int32_t *ids = NULL;
    size_t count;
    kvs_status st;

    kvsi_checksum_add(sum, text, size);
    TRY_OUT(kvs_tokenizer_encode(&ids, &count, tokenizer, text, size, 0, err));
    TRY_OUT(reserve(t, count, err));
    t->bytes += size;
    if (count > 0) {
        memcpy(t->ids + t->count, ids, count * sizeof *ids);
        TRY_OUT(count_bytes(&t->unscored, tokenizer, ids, 1, err));
    }
    t->count += count;
    st = end_text(t, err);
out:
    kvs_ids_free(ids);
    return st;
}

static kvs_status add_file(texts *t, const kvs_tokenizer *tokenizer, const char *path,
                           const char *field, kvsi_checksum_stream *sum, kvs_err *err)
{
    kvs_documents *documents = NULL;
    kvsi_text text = {0};
    const char *part = NULL;
    size_t size = 0;
    int last = 0;
    kvs_status st;

    TRY_OUT(kvs_documents_open(&documents, path, field, "", err));
    for (;;) {
        TRY_OUT(kvs_documents_next(&part, &size, &last, documents, err));
        if (!part)
            break;
        kvsi_text_add_bytes(&text, part, size);
        TRY_OUT(kvsi_text_check(&text, err));
        if (text.length > KVSI_TEXT_LIMIT) {
            st = kvsi_fail(err, KVS_E_LIMIT, "a text of '%s' has more than %d bytes", path,
                           KVSI_TEXT_LIMIT);
            goto out;
        }
        if (!last)
            continue;
        TRY_OUT(add_text(t, tokenizer, text.data, text.length, sum, err));
        text.length = 0;
    }
    if (!t->learned && is_source(t->sources, kvs_documents_checksum(documents)))
        t->learned = strncmp(path, "/proc/", 6) == 0 ? "piped input" : path;
out:
    kvsi_text_release(&text);
    kvs_documents_close(documents);
    return st;
}

static kvs_status read_files(texts *t, const kvs_tokenizer *tokenizer,
                             const kvsi_parsed_options *parsed, const char *field, kvs_err *err)
{
    kvsi_checksum_stream *sum = NULL;
    kvs_status st;

    TRY_OUT(kvsi_text_files_list(&t->files, (const char *const *)parsed->arguments,
                                 parsed->argument_count, err));
    TRY_OUT(kvsi_checksum_create(&sum, err));
    for (size_t i = 0; i < t->files.count; i++)
        TRY_OUT(add_file(t, tokenizer, t->files.paths[i], field, sum, err));
    t->checksum = kvsi_checksum_value(sum);
out:
    kvsi_checksum_free(sum);
    return st;
}

/* The EOS token at the end of a document has no bytes. */
static kvs_status add_document(texts *t, const kvs_corpus *corpus, const kvs_tokenizer *tokenizer,
                               kvs_err *err)
{
    const int32_t *ids = t->ids + t->count;
    const size_t count = kvs_corpus_document(t->ids + t->count, t->capacity - t->count, corpus,
                                             KVS_SPLIT_VALID, t->texts);
    const int ends = tokenizer && count > 0 && kvs_corpus_get_info(corpus)->eos &&
                     ids[count - 1] == kvs_tokenizer_eos(tokenizer);

    t->count += count;
    t->starts[++t->texts] = t->count;
    if (!tokenizer || count == 0)
        return KVS_OK;
    TRY(count_bytes(&t->bytes, tokenizer, ids, count - (size_t)ends, err));
    return count_bytes(&t->unscored, tokenizer, ids, 1, err);
}

static kvs_status read_corpus(texts *t, const char *path, const kvsi_loaded_model *m, kvs_err *err)
{
    const kvs_split_info *info;
    kvs_corpus *corpus = NULL;
    kvs_corpus_build_options usual;
    kvs_corpus_options how;
    kvs_status st;

    kvs_corpus_build_options_init(&usual, sizeof usual);
    kvs_corpus_options_init(&how, sizeof how);
    how.vocab = m->tokenizer ? 0 : kvsi_model_count(kvs_model_get_config(m->model), "vocab");
    how.tokenizer = m->tokenizer;
    TRY_OUT(kvs_corpus_open(&corpus, path, &how, err));
    if (strcmp(kvs_corpus_get_info(corpus)->format, "kvshift") != 0)
        TRY_OUT(kvs_corpus_hold_out(corpus, usual.valid, err));
    info = &kvs_corpus_get_info(corpus)->split[KVS_SPLIT_VALID];
    if (info->tokens == 0) {
        st = kvsi_fail(err, KVS_E_INVALID, "'%s' has no validation split", path);
        goto out;
    }
    TRY_OUT(reserve(t, (size_t)info->tokens, err));
    t->starts = kvsi_alloc((size_t)info->documents + 1, sizeof *t->starts);
    if (!t->starts) {
        st = no_memory((size_t)info->documents, err);
        goto out;
    }
    while (t->texts < info->documents)
        TRY_OUT(add_document(t, corpus, m->tokenizer, err));
    t->checksum = kvsi_checksum(t->ids, t->count * sizeof *t->ids);
    t->bytes_are_unknown = !m->tokenizer;
out:
    kvs_corpus_close(corpus);
    return st;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Loss per byte: the loss of all predicted tokens, divided by their bytes. */
typedef struct byte_loss {
    double bits, error, perplexity; /* NaN = not known */
} byte_loss;

static byte_loss loss_per_byte(const kvs_perplexity_result *r, const texts *t)
{
    const double bytes = t->bytes_are_unknown ? NAN : (double)(t->bytes - t->unscored);
    const double share = (double)r->tokens / (bytes * log(2));

    return (byte_loss){r->loss * share, r->loss_error * share, exp2(r->loss * share)};
}

static kvs_status print_json(const kvs_perplexity_result *r, const settings *s, const texts *t,
                             kvs_err *err)
{
    const byte_loss b = loss_per_byte(r, t);
    char checksum[KVSI_CHECKSUM_TEXT];
    json_t *object;

    kvsi_checksum_print(checksum, t->checksum);
    object =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "loss", kvsi_json_number(r->loss), "loss_error",
                  kvsi_json_number(r->loss_error), "perplexity", kvsi_json_number(r->perplexity),
                  "bits_per_byte", kvsi_json_number(b.bits), "bits_per_byte_error",
                  kvsi_json_number(b.error), "byte_perplexity", kvsi_json_number(b.perplexity));
    if (object)
        json_object_update_new(
            object,
            json_pack("{s:I, s:o, s:I, s:I, s:I, s:f, s:s}", "tokens", (json_int_t)r->tokens,
                      "bytes",
                      t->bytes_are_unknown ? json_null() : json_integer((json_int_t)t->bytes),
                      "texts", (json_int_t)t->texts, "window", (json_int_t)s->window, "stride",
                      (json_int_t)s->stride, "scored_fraction", (double)r->tokens / (double)r->fed,
                      "checksum", checksum));
    if (object && s->data)
        json_object_update_new(
            object, json_pack("{s:o, s:s}", "data", kvsi_json_path(s->data), "split", "valid"));
    if (object && s->against)
        json_object_update_new(
            object, json_pack("{s:o, s:f, s:f, s:o, s:f}", "against", kvsi_json_path(s->against),
                              "reference_loss", r->reference_loss, "divergence", r->divergence,
                              "divergence_error", kvsi_json_number(r->divergence_error),
                              "same_best", r->same_best));
    return kvsi_cli_print_json(object, err);
}

static void print_result(const kvs_perplexity_result *r, const settings *s, const texts *t)
{
    const byte_loss b = loss_per_byte(r, t);
    char checksum[KVSI_CHECKSUM_TEXT];

    kvsi_checksum_print(checksum, t->checksum);
    printf("loss        %.4f ± %.4f per token\n", r->loss, r->loss_error);
    printf("perplexity  %.3f per token (%.3f to %.3f)\n", r->perplexity,
           exp(r->loss - r->loss_error), exp(r->loss + r->loss_error));
    if (!t->bytes_are_unknown)
        printf("bytes       %.4f ± %.4f bits per byte, perplexity %.4f per byte\n", b.bits, b.error,
               b.perplexity);
    if (s->against)
        printf("against     %s: loss %+.5f, divergence %.6f ± %.6f, same most likely token in "
               "%.2f %%\n",
               s->against, r->loss - r->reference_loss, r->divergence, r->divergence_error,
               100 * r->same_best);
    printf("measured    %" PRIu64 " tokens", r->tokens);
    if (!t->bytes_are_unknown)
        printf(", %" PRIu64 " bytes", t->bytes);
    printf(", window %zu, stride %zu: %.1f %% of the positions are scored\n", s->window, s->stride,
           100 * (double)r->tokens / (double)r->fed);
    if (s->data)
        printf("texts       %zu of the validation split of '%s', checksum %s\n", t->texts, s->data,
               checksum);
    else
        printf("texts       %zu, checksum %s\n", t->texts, checksum);
}

/* ---- positions ------------------------------------------------------------------------------- */

/* The curves of the model and of the one of --against. */
typedef struct position_curves {
    kvs_position_curve *list[2];
    const char *models[2];
    size_t count;
} position_curves;

static json_t *estimate_json(kvs_estimate e)
{
    return json_pack("[o, o]", kvsi_json_number(e.mean), kvsi_json_number(e.error));
}

static json_t *curve_json(const kvs_position_curve *curve, const char *model)
{
    json_t *points = json_array();
    const kvs_position_point *point;
    kvs_position_scores s;

    kvs_position_curve_scores(&s, curve);
    for (size_t i = 0; (point = kvs_position_curve_at(curve, i)) != NULL; i++)
        json_array_append_new(
            points, json_pack("{s:I, s:I, s:o}", "first", (json_int_t)point->first, "last",
                              (json_int_t)point->last, "loss", estimate_json(point->loss)));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "model", kvsi_json_path(model),
                     "token_50", estimate_json(s.early), "token_500", estimate_json(s.late),
                     "score", estimate_json(s.score), "early_mean", estimate_json(s.early_mean),
                     "late_mean", estimate_json(s.late_mean), "mean_score",
                     estimate_json(s.mean_score), "curve", points);
}

static kvs_status print_positions_json(const position_curves *c, const settings *s, const texts *t,
                                       kvs_err *err)
{
    char checksum[KVSI_CHECKSUM_TEXT];
    json_t *object, *models = json_array();
    kvs_position_scores scores;

    kvsi_checksum_print(checksum, t->checksum);
    kvs_position_curve_scores(&scores, c->list[0]);
    for (size_t i = 0; i < c->count; i++)
        json_array_append_new(models, curve_json(c->list[i], c->models[i]));
    object =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:s, s:o}", "windows", (json_int_t)scores.windows,
                  "window", (json_int_t)scores.window, "last_token", (json_int_t)scores.late_last,
                  "texts", (json_int_t)t->texts, "texts_too_short", (json_int_t)scores.too_short,
                  "checksum", checksum, "models", models);
    if (object && s->data)
        json_object_update_new(
            object, json_pack("{s:o, s:s}", "data", kvsi_json_path(s->data), "split", "valid"));
    if (object && c->count == 2) {
        kvs_estimate score, mean;
        const kvs_status st =
            kvs_position_curve_difference(&score, &mean, c->list[1], c->list[0], err);

        if (st != KVS_OK) {
            json_decref(object);
            return st;
        }
        json_object_update_new(object,
                               json_pack("{s:o, s:o}", "score_difference", estimate_json(score),
                                         "mean_score_difference", estimate_json(mean)));
    }
    return kvsi_cli_print_json(object, err);
}

static void print_curve(const kvs_position_curve *curve)
{
    const kvs_position_point *point;

    printf("tokens      loss\n");
    for (size_t i = 0; (point = kvs_position_curve_at(curve, i)) != NULL; i++) {
        char tokens[32];

        if (point->first == point->last)
            snprintf(tokens, sizeof tokens, "%zu", point->first);
        else
            snprintf(tokens, sizeof tokens, "%zu-%zu", point->first, point->last);
        printf("%-12s%.4f ± %.4f\n", tokens, point->loss.mean, point->loss.error);
    }
}

static kvs_status print_positions(const position_curves *c, const settings *s, const texts *t,
                                  kvs_err *err)
{
    char checksum[KVSI_CHECKSUM_TEXT];
    kvs_position_scores r = {0};

    for (size_t i = 0; i < c->count; i++) {
        kvs_position_curve_scores(&r, c->list[i]);
        if (c->count > 1)
            printf("%smodel       %s\n", i > 0 ? "\n" : "", c->models[i]);
        printf("score       %+.4f ± %.4f: loss %.4f at token 500, %.4f at token 50\n", r.score.mean,
               r.score.error, r.late.mean, r.early.mean);
        printf("smooth      %+.4f ± %.4f: loss %.4f over tokens 450-%zu, %.4f over 40-60\n",
               r.mean_score.mean, r.mean_score.error, r.late_mean.mean, r.late_last,
               r.early_mean.mean);
        print_curve(c->list[i]);
    }
    if (c->count == 2) {
        kvs_estimate score, mean;

        TRY(kvs_position_curve_difference(&score, &mean, c->list[1], c->list[0], err));
        printf("\nagainst     score %+.4f ± %.4f, smooth %+.4f ± %.4f, window by window; below 0: "
               "the first model gains more from its context\n",
               score.mean, score.error, mean.mean, mean.error);
    }
    kvsi_checksum_print(checksum, t->checksum);
    printf("measured    %zu windows of %zu tokens; errors are over windows\n", r.windows, r.window);
    if (r.too_short > 0)
        printf("left out    %zu texts of fewer than %zu tokens\n", r.too_short, r.window + 1);
    if (s->data)
        printf("texts       %zu of the validation split of '%s', checksum %s\n", t->texts, s->data,
               checksum);
    else
        printf("texts       %zu, checksum %s\n", t->texts, checksum);
    return KVS_OK;
}

static const char *after_slash(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

/* The last part of a model's path, for the legend; the whole path if both have the same. */
static const char *last_part(const position_curves *c, size_t index)
{
    const char *name = after_slash(c->models[index]);
    const char *other = c->count == 2 ? after_slash(c->models[1 - index]) : "";

    return strcmp(name, other) == 0 ? c->models[index] : name;
}

static kvs_status measure_positions(const settings *s, const kvs_model *model,
                                    const kvs_model *against, const texts *t,
                                    kvs_perplexity_options o, kvs_err *err)
{
    position_curves c = {.models = {s->input.model, s->against}, .count = against ? 2 : 1};
    kvs_status st;

    o.reference = NULL;
    TRY_OUT(kvs_loss_by_position(&c.list[0], model, t->ids, t->count, &o, err));
    o.cache = KVS_DTYPE_KEEP;
    if (against)
        TRY_OUT(kvs_loss_by_position(&c.list[1], against, t->ids, t->count, &o, err));
    if (s->json)
        TRY_OUT(print_positions_json(&c, s, t, err));
    else
        TRY_OUT(print_positions(&c, s, t, err));
    if (s->svg)
        TRY_OUT(kvs_position_curves_draw(s->svg, (const kvs_position_curve *const *)c.list,
                                         (const char *[]){last_part(&c, 0), last_part(&c, 1)},
                                         c.count, err));
out:
    kvs_position_curve_free(c.list[0]);
    kvs_position_curve_free(c.list[1]);
    return st;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int show_progress(void *user, size_t done, size_t all)
{
    kvsi_progress *progress = user;
    char left[32], line[128];
    double elapsed;

    if (!kvsi_progress_is_due(progress, &elapsed) || done == 0)
        return 0;
    kvsi_format_duration(left, sizeof left, elapsed / (double)done * (double)(all - done));
    snprintf(line, sizeof line, "%zu of %zu tokens, %s left", done, all, left);
    kvsi_progress_show(progress, line);
    return 0;
}

static kvs_status measure(settings *s, const kvsi_loaded_model *m, const kvsi_parsed_options *files,
                          kvs_err *err)
{
    kvs_perplexity_options o = {0};
    kvs_perplexity_result result = {0};
    /* The reference is exact to float32, whatever the precision of the model. */
    const kvs_runtime_options f32 = {.size = sizeof(kvs_runtime_options),
                                     .threads = (int)s->input.threads,
                                     .cpu_level = s->input.cpu_level,
                                     .exact = s->input.exact};
    kvsi_progress progress;
    kvs_runtime *reference_rt = NULL;
    kvs_model *reference = NULL;
    texts t = {0};
    kvs_status st = KVS_OK;

    if (s->against) {
        TRY_OUT(kvs_runtime_create(&reference_rt, &f32, err));
        TRY_OUT(kvs_model_load(&reference, reference_rt, s->against,
                               &(kvs_load_options){.size = sizeof(kvs_load_options), .mapped = 1},
                               err));
    }
    if (s->data)
        TRY_OUT(read_corpus(&t, s->data, m, err));
    else
        t.sources = sources_of(s->input.model);
    if (!s->data)
        TRY_OUT(read_files(&t, m->tokenizer, files, s->field, err));
    s->window =
        s->window > 0 ? s->window : kvsi_model_count(kvs_model_get_config(m->model), "context");
    if (s->stride == 0)
        s->stride = s->positions ? s->window : (s->window + 1) / 2;
    o = (kvs_perplexity_options){.window = s->window,
                                 .stride = s->stride,
                                 .starts = t.starts,
                                 .texts = t.texts,
                                 .reference = reference,
                                 .cache = s->input.kv_cache};
    kvsi_progress_start(&progress, s->quiet || !isatty(STDERR_FILENO));
    o.progress = show_progress;
    o.user = &progress;
    st = s->positions ? measure_positions(s, m->model, reference, &t, o, err)
                      : kvs_perplexity(&result, m->model, t.ids, t.count, &o, err);
    kvsi_progress_end(&progress);
    if (st != KVS_OK)
        goto out;
    if (t.learned)
        fprintf(
            stderr,
            "kvshift: the model was trained on '%s'; --data CORPUS measures the held-out text\n",
            t.learned);
    if (!s->positions && s->json)
        TRY_OUT(print_json(&result, s, &t, err));
    else if (!s->positions)
        print_result(&result, s, &t);
out:
    kvs_model_free(reference);
    kvs_runtime_free(reference_rt);
    release(&t);
    return st;
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    settings *s = data;
    kvsi_loaded_model loaded = {0};
    kvs_status st;

    if (s->svg && !s->positions)
        return kvsi_fail(err, KVS_E_INVALID,
                         "'--svg' draws losses by position, expected "
                         "'--positions' too");
    if ((s->data != NULL) == (call->parsed->argument_count > 0))
        return kvsi_fail(err, KVS_E_INVALID, "expected FILE... or '--data', found %s",
                         s->data ? "both" : "neither");
    TRY_OUT(kvsi_model_input_load(&loaded, &s->input, !s->data, err));
    TRY_OUT(measure(s, &loaded, call->parsed, err));
out:
    kvsi_loaded_model_release(&loaded);
    return st;
}

const kvsi_command kvsi_cmd_ppl = {
    .name = "ppl",
    .summary = "measure how well a model predicts a text",
    .options = &options,
    .settings_size = sizeof(settings),
    .run = run,
};
