/* kvshift analyze: shift coefficients and attention patterns of the heads of a model. */
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/coefficients.h"
#include "cli/model_input.h"
#include "cli/progress.h"
#include "kvshift/kvshift_lab.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct settings {
    kvsi_model_input input;
    kvs_lens_options lens;
    const char *svg, *text;
    int json;
} settings;

#define FIELD(name) offsetof(settings, name)

/* clang-format off */
static const kvsi_setting rows[] = {
    {.name = "length", .kind = KVSI_SETTING_SIZE, .offset = FIELD(lens.length), .group = "Scores",
     .placeholder = "N", .help = "random tokens, repeated once; at most half the context",
     .low = 2, .high = 4096},
    {.name = "sequences", .kind = KVSI_SETTING_SIZE, .offset = FIELD(lens.sequences),
     .group = "Scores", .placeholder = "N", .help = "sequences to average over", .low = 1,
     .high = 65536},
    {.name = "seed", .kind = KVSI_SETTING_UINT64, .offset = FIELD(lens.seed), .group = "Scores",
     .placeholder = "N", .help = "seed of the tokens"},
    {.name = "first-id", .kind = KVSI_SETTING_SIZE, .offset = FIELD(lens.first_id),
     .group = "Scores", .placeholder = "ID", .help = "smallest id to draw"},
    {.name = "svg", .kind = KVSI_SETTING_TEXT, .offset = FIELD(svg), .group = "Output",
     .placeholder = "FILE", .help = "draw the attention patterns of all heads; needs gnuplot"},
    {.name = "text", .kind = KVSI_SETTING_TEXT, .offset = FIELD(text), .group = "Output",
     .placeholder = "TEXT",
     .help = "with --svg: draw the patterns on this text, with its tokens on the axes",
     .automatic = "a random sequence"},
    {.name = "tokenizer", .letter = 't', .kind = KVSI_SETTING_TEXT,
     .offset = FIELD(input.tokenizer), .group = "Output", .placeholder = "FILE",
     .help = "tokenizer of --text", .automatic = "in the model's folder, in or beside its file"},
    {.name = "json", .kind = KVSI_SETTING_FLAG, .offset = FIELD(json), .group = "Output",
     .help = "print one JSON object"},
    KVSI_RUN_ROWS(settings),
};
/* clang-format on */

static const kvsi_command_options options = {
    .command = "kvshift analyze",
    .examples = "  kvshift analyze runs/book\n"
                "  kvshift analyze runs/book --svg heads.svg\n"
                "  kvshift analyze runs/book --text \"A B C A B\" --svg text.svg\n",
    .purpose = "Prints the shift coefficients of every KV head and their sums, and measures every "
               "head on a random sequence that is repeated once: the attention to the token after "
               "the earlier copy (induction), to the earlier copy (duplicate), and to the previous "
               "token (previous).  Attention is measured by position (A) and by the values it "
               "reads (A_V); these differ if values are shifted.",
    .notes =
        "MODEL is as for 'kvshift inspect'.  The column 'keys' is α2 / (|α1| + |α2|), the share "
        "of the\nprevious token in a head's keys.",
    .argument = "MODEL",
    .min_arguments = 1,
    .max_arguments = 1,
    .tables = KVSI_OPTIONS(rows),
};

typedef struct analysis {
    kvsi_loaded_model loaded;
    kvsi_coefficients coefficients;
    int has_summary;
    kvs_shift_summary summary;
    kvs_head_reading *heads;
    size_t count;
} analysis;

static void analysis_release(analysis *a)
{
    kvsi_coefficients_release(&a->coefficients);
    kvsi_free(a->heads);
    kvsi_loaded_model_release(&a->loaded);
}

/* Draws the patterns of all heads on the text of --text. */
static kvs_status draw_text(const analysis *a, const settings *s, kvs_err *err)
{
    const kvs_tokenizer *tokenizer = a->loaded.tokenizer;
    char *labels[KVS_DRAWN_TOKENS_MAX] = {NULL};
    int32_t *ids = NULL;
    size_t count = 0, size;
    kvs_status st;

    if (!s->svg)
        return kvsi_fail(err, KVS_E_INVALID, "option '--text' needs '--svg'");
    TRY_OUT(kvs_tokenizer_encode(&ids, &count, tokenizer, s->text, strlen(s->text), 0, err));
    for (size_t i = 0; i < count && i < KVS_DRAWN_TOKENS_MAX; i++)
        TRY_OUT(kvs_tokenizer_decode(&labels[i], &size, tokenizer, ids + i, 1, err));
    if (count > KVS_DRAWN_TOKENS_MAX)
        st = kvsi_fail(err, KVS_E_INVALID, "the text has %zu tokens, expected at most %d", count,
                       (int)KVS_DRAWN_TOKENS_MAX);
    else
        st = kvs_text_patterns_draw(s->svg, a->loaded.model, ids, (const char *const *)labels,
                                    count, err);
out:
    for (size_t i = 0; i < KVS_DRAWN_TOKENS_MAX; i++)
        kvs_text_free(labels[i]);
    kvs_ids_free(ids);
    return st;
}

static kvs_status analyze(analysis *a, settings *s, kvs_err *err)
{
    TRY(kvsi_model_input_load(&a->loaded, &s->input, s->text != NULL, err));
    TRY(kvs_lens_options_finish(&s->lens, a->loaded.model, err));
    TRY(kvsi_coefficients_read(&a->coefficients, a->loaded.model, err));
    a->has_summary = a->coefficients.shift.has_kinds;
    if (a->has_summary)
        TRY(kvs_shift_summarise(&a->summary, a->loaded.model, err));
    a->count = kvs_lens_heads(a->loaded.model);
    a->heads = kvsi_alloc(a->count, sizeof *a->heads);
    if (!a->heads)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu heads", a->count);
    TRY(kvs_lens_read(a->heads, a->loaded.model, &s->lens, err));
    if (s->text)
        return draw_text(a, s, err);
    if (s->svg)
        TRY(kvs_patterns_draw(s->svg, a->loaded.model, &s->lens, err));
    return KVS_OK;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The name of the highest score, if it is high enough. */
static const char *reading_of(const kvs_head_scores *s)
{
    const double enough = 0.4;

    if (s->induction >= enough && s->induction >= s->duplicate && s->induction >= s->previous)
        return "induction";
    if (s->duplicate >= enough && s->duplicate >= s->previous)
        return "duplicate";
    return s->previous >= enough ? "previous" : "other";
}

static void print_summary(const kvs_shift_summary *s)
{
    printf("sums\n");
    printf("  %-24s%.4f ± %.4f\n", "Σα, mean", s->alpha_sum.mean, s->alpha_sum.error);
    printf("  %-24s%.4f ± %.4f\n", "Σβ, mean", s->beta_sum.mean, s->beta_sum.error);
    printf("  %-22s%zu of %zu α, %zu of %zu β\n", "negative", s->negative_alphas, 2 * s->heads,
           s->negative_betas, 2 * s->heads);
}

static void print_scores(const kvs_head_scores *s)
{
    printf("  %9.3f  %9.3f  %9.3f", s->induction, s->duplicate, s->previous);
}

static void print_heads(const analysis *a, const settings *s)
{
    printf("heads: %zu random tokens twice, %zu sequence%s\n", s->lens.length, s->lens.sequences,
           s->lens.sequences == 1 ? "" : "s");
    printf("%24s%-33s%s\n", "", "by place (A)", "by content (A_V)");
    printf("  layer  head    kv");
    for (int side = 0; side < 2; side++)
        printf("  %9s  %9s  %9s", "induction", "duplicate", "previous");
    printf("  %6s  reading\n", "keys");
    for (size_t i = 0; i < a->count; i++) {
        const kvs_head_reading *h = a->heads + i;

        printf("  %5zu %5zu %5zu", h->layer, h->head, h->kv_head);
        print_scores(&h->places);
        print_scores(&h->contents);
        if (isnan(h->previous_keys))
            printf("  %6s", "-");
        else
            printf("  %6.2f", h->previous_keys);
        printf("  %s\n", reading_of(&h->contents));
    }
}

static void print_people(const analysis *a, const settings *s)
{
    if (a->coefficients.shift.targets != 0)
        kvsi_coefficients_print(&a->coefficients);
    if (a->has_summary)
        print_summary(&a->summary);
    print_heads(a, s);
}

/* ---- JSON ---------------------------------------------------------------------------- */

static json_t *scores_to_json(const kvs_head_scores *s)
{
    return json_pack("{s:f, s:f, s:f}", "induction", s->induction, "duplicate", s->duplicate,
                     "previous", s->previous);
}

static json_t *estimate_to_json(const kvs_estimate *e)
{
    return json_pack("{s:f, s:o}", "mean", e->mean, "error", kvsi_json_number(e->error));
}

static json_t *summary_to_json(const kvs_shift_summary *s)
{
    return json_pack("{s:I, s:o, s:o, s:I, s:I}", "kv_heads", (json_int_t)s->heads, "alpha_sum",
                     estimate_to_json(&s->alpha_sum), "beta_sum", estimate_to_json(&s->beta_sum),
                     "negative_alphas", (json_int_t)s->negative_alphas, "negative_betas",
                     (json_int_t)s->negative_betas);
}

static kvs_status print_json(const analysis *a, const settings *s, kvs_err *err)
{
    json_t *heads = json_array();
    json_t *coefficients = a->coefficients.shift.targets != 0
                               ? kvsi_coefficients_to_json(&a->coefficients)
                               : json_null();

    for (size_t i = 0; i < a->count; i++) {
        const kvs_head_reading *h = a->heads + i;

        json_array_append_new(heads, json_pack("{s:I, s:I, s:I, s:o, s:o, s:o, s:s}", "layer",
                                               (json_int_t)h->layer, "head", (json_int_t)h->head,
                                               "kv_head", (json_int_t)h->kv_head, "by_place",
                                               scores_to_json(&h->places), "by_content",
                                               scores_to_json(&h->contents), "previous_keys",
                                               kvsi_json_number(h->previous_keys), "reading",
                                               reading_of(&h->contents)));
    }
    return kvsi_cli_print_json(
        json_pack("{s:o, s:o, s:{s:I, s:I, s:I}, s:o}", "coefficients", coefficients, "sums",
                  a->has_summary ? summary_to_json(&a->summary) : json_null(), "tokens", "length",
                  (json_int_t)s->lens.length, "sequences", (json_int_t)s->lens.sequences, "seed",
                  (json_int_t)s->lens.seed, "heads", heads),
        err);
}

static void set_defaults(void *data)
{
    settings *s = data;

    kvs_lens_options_init(&s->lens);
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    settings *s = data;
    analysis a = {0};
    kvsi_waiting *waiting;
    kvs_status st;

    s->input.model = call->parsed->arguments[0];
    waiting = kvsi_waiting_start("measuring heads");
    st = analyze(&a, s, err);
    kvsi_waiting_end(waiting);
    if (st != KVS_OK)
        goto out;
    if (s->json)
        TRY_OUT(print_json(&a, s, err));
    else
        print_people(&a, s);
out:
    analysis_release(&a);
    return st;
}

const kvsi_command kvsi_cmd_analyze = {
    .name = "analyze",
    .summary = "measure what the heads of a model attend to, and its shift",
    .options = &options,
    .settings_size = sizeof(settings),
    .set_defaults = set_defaults,
    .run = run,
};
