#include "cli/train_setup.h"

#include "base/files.h"
#include "cli/memory_check.h"
#include "cli/model_input.h"
#include "cli/model_options.h"
#include "cli/train_folder.h"
#include "cli/train_records.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Defaults for text: window length in tokens, and windows per evaluation. */
enum { TEXT_CONTEXT = 256, TEXT_EVAL_WINDOWS = 256 };

/* ---- memory ---------------------------------------------------------------------------------- */

/* Checks that the memory a run still has to allocate is free.  A model that is loaded from a file
 * allocates its weights first; `weights_alone` checks only those. */
static kvs_status check_memory(const kvsi_train_setup *w, const kvsi_train_options *s,
                               const kvs_model_config *config, int weights_alone, kvs_err *err)
{
    kvs_plan plan;
    uint64_t needed;

    if (s->dry_run || s->show > 0 || s->overcommit)
        return KVS_OK;
    TRY(kvs_train_plan(&plan, w->rt, config, w->data, s->train, err));
    needed = weights_alone ? plan.weight_bytes
             : w->model    ? plan.total_bytes - plan.weight_bytes
                           : plan.total_bytes;
    return kvsi_check_memory(needed, w->comm,
                             "--recompute, --accumulate, --batch, or --overcommit to start anyway",
                             err);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Replaces the loaded model by one that has the shift of --retrofit. */
static kvs_status retrofit_model(kvsi_train_setup *w, const char *targets, kvs_err *err)
{
    kvs_model_config *shift = NULL;
    kvs_model *shifted = NULL;
    kvs_status st;

    TRY_OUT(kvs_model_config_create(&shift, NULL, err));
    TRY_OUT(kvsi_model_set_retrofit(shift, targets, err));
    TRY_OUT(kvs_model_retrofit(&shifted, w->rt, w->model, shift, err));
    kvs_model_free(w->model);
    w->model = shifted;
out:
    kvs_model_config_free(shift);
    return st;
}

/* Replaces the model by one that has the adapters of --lora.  Their initial values depend on the
 * seed of the run. */
static kvs_status adapt_model(kvsi_train_setup *w, const kvsi_train_options *s, kvs_err *err)
{
    kvs_adapter_options options;
    kvs_model *adapted;

    kvs_adapter_options_init(&options, sizeof options);
    options.rank = s->lora;
    options.alpha = s->lora_alpha;
    options.on = s->lora_on;
    options.seed = kvsi_train_count(s->train, "seed");
    TRY(kvs_model_adapt(&adapted, w->rt, w->model, &options, err));
    kvs_model_free(w->model);
    w->model = adapted;
    return KVS_OK;
}

static kvs_status load_model(kvsi_train_setup *w, kvsi_train_options *s,
                             const kvsi_parsed_options *parsed, kvs_err *err)
{
    kvs_model_config *config = NULL;
    kvs_status st;

    TRY_OUT(kvs_model_config_load(&config, s->init_from, err));
    TRY_OUT(check_memory(w, s, config, 1, err));
    TRY_OUT(kvs_model_load(&w->model, w->rt, s->init_from, NULL, err));
    TRY_OUT(kvsi_train_check_agreement(s, parsed, kvs_model_get_config(w->model), err));
    if (s->retrofit)
        TRY_OUT(retrofit_model(w, s->retrofit, err));
    if (s->lora > 0)
        TRY_OUT(adapt_model(w, s, err));
    kvs_model_config_free(s->model);
    s->model = NULL;
    st = kvs_model_config_copy(&s->model, kvs_model_get_config(w->model), err);
out:
    kvs_model_config_free(config);
    return st;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* A file of token ids does not contain the size of its vocabulary, so --vocab must give it. */
static kvs_status check_file(const kvsi_train_options *s, size_t vocab, kvs_err *err)
{
    if (vocab == 0 && !kvsi_ends_with(s->data, ".shard"))
        return kvsi_fail(
            err, KVS_E_INVALID,
            "'%s' is not a corpus; for a .bin of llm.c or nanoGPT give its vocabulary size with "
            "--vocab; for text, build a corpus with 'kvshift data build'",
            s->data);
    return KVS_OK;
}

/* Opens a corpus, or a file of ids.  The validation split of a file of ids is --valid-data, or the
 * end of the file. */
static kvs_status open_corpus(kvsi_train_setup *w, const kvsi_train_options *s,
                              const kvsi_parsed_options *parsed, kvs_err *err)
{
    const int is_file = kvsi_file_exists(s->data) && !kvsi_is_folder(s->data);
    const int is_known = w->model || kvsi_train_is_given(parsed, "vocab");
    kvs_corpus_build_options usual;
    kvs_corpus_options how;

    kvs_corpus_build_options_init(&usual, sizeof usual);
    kvs_corpus_options_init(&how, sizeof how);
    how.vocab = is_file && is_known ? kvsi_model_count(s->model, "vocab") : 0;
    how.valid = s->valid_data;
    if (is_file)
        TRY(check_file(s, how.vocab, err));
    TRY(kvs_corpus_open(&w->corpus, s->data, &how, err));
    if (is_file && !s->valid_data)
        TRY(kvs_corpus_hold_out(w->corpus, usual.valid, err));
    return kvs_corpus_load_tokenizer(&w->tokenizer, w->corpus, err);
}

/* Gives 10 to 20 evaluations per run, at a round number of steps. */
static uint64_t usual_eval_every(uint64_t steps)
{
    static const uint64_t rounds[] = {10, 20, 25, 50};
    uint64_t every = steps < 20 ? 1 : steps < 50 ? 2 : 5;

    for (uint64_t unit = 1; unit <= steps / 100; unit *= 10)
        for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++)
            every = rounds[i] <= steps / 10 / unit ? rounds[i] * unit : every;
    return every;
}

/* --epochs sets the number of steps.  If --steps is given too, by the same file or command line,
 * both must agree; a run that is resumed keeps its number. */
static kvs_status set_steps(const kvsi_train_setup *w, kvsi_train_options *s,
                            const kvsi_parsed_options *parsed, kvs_err *err)
{
    const double sequences = (double)kvsi_train_sequences(w, s);
    const double batch = kvs_train_config_number(s->train, "batch");
    const double steps = ceil(s->epochs * sequences / batch);
    const double given = kvs_train_config_number(s->train, "steps");

    if (!(s->epochs > 0))
        return KVS_OK;
    if (!kvsi_train_is_given(parsed, "steps"))
        TRY(kvs_train_config_set_number(s->train, "steps", steps > 1 ? steps : 1, err));
    else if (!s->resume && given != steps)
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--steps' is %.0f, but '--epochs' %g makes %.0f steps of %.0f "
                         "sequences",
                         given, s->epochs, steps, batch);
    if (!kvsi_train_is_given(parsed, "warmup") &&
        steps / 10 < kvs_train_config_number(s->train, "warmup"))
        return kvs_train_config_set_number(s->train, "warmup", floor(steps / 10), err);
    return KVS_OK;
}

/* The corpus sets the vocabulary; windows are as long as the context. */
static kvs_status open_text(kvsi_train_setup *w, kvsi_train_options *s,
                            const kvsi_parsed_options *parsed, kvs_err *err)
{
    const double most = TEXT_EVAL_WINDOWS;
    double windows, every;

    if (kvsi_model_count(s->model, "context") == 0)
        TRY(kvs_model_config_set_number(s->model, "context", TEXT_CONTEXT, err));
    if (s->sequence_tokens > kvsi_model_count(s->model, "context"))
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--sequence-tokens' is %zu, but the context is %zu",
                         s->sequence_tokens, kvsi_model_count(s->model, "context"));
    if (kvsi_train_is_text_file(s)) {
        TRY(kvsi_train_open_records(w, s, parsed, err));
    } else {
        TRY(kvsi_train_refuse_record_options(s, parsed, err));
        TRY(open_corpus(w, s, parsed, err));
        TRY(kvs_data_create_corpus(&w->data, w->corpus, kvsi_train_sequence_tokens(s), err));
    }
    if (!w->model && !kvsi_train_is_given(parsed, "vocab"))
        TRY(kvs_model_config_set_number(s->model, "vocab", (double)kvs_data_vocab(w->data), err));
    windows = (double)kvsi_train_valid_sequences(w, s);
    TRY(set_steps(w, s, parsed, err));
    every = (double)usual_eval_every(kvsi_train_count(s->train, "steps"));
    if (!kvsi_train_is_given(parsed, "eval-sequences"))
        TRY(kvs_train_config_set_number(s->train, "eval-sequences", windows < most ? windows : most,
                                        err));
    if (!kvsi_train_is_given(parsed, "eval-every"))
        TRY(kvs_train_config_set_number(s->train, "eval-every", every, err));
    return KVS_OK;
}

/* A model that training starts from must have the tokenizer of the data: with another one the same
 * ids mean other text. */
static kvs_status compare_tokenizers(const kvsi_train_setup *w, const kvsi_train_options *s,
                                     kvs_err *err)
{
    const kvsi_model_input input = {.model = s->init_from};
    kvs_tokenizer *models = NULL;
    uint64_t hash;
    kvs_status st = KVS_OK;

    if (!s->init_from || !w->tokenizer)
        return KVS_OK;
    st = kvsi_model_tokenizer(&models, &input, 0, err);
    if (st != KVS_OK && !s->new_tokenizer)
        goto out;
    st = KVS_OK;
    hash = models ? kvs_tokenizer_hash(models) : 0;
    if (!models || hash == kvs_tokenizer_hash(w->tokenizer))
        goto out;
    if (!s->new_tokenizer)
        st = kvsi_fail(err, KVS_E_INVALID,
                       "the tokenizer of '%s' (hash %016" PRIx64 ") differs from that of '%s' "
                       "(hash %016" PRIx64 "); --new-tokenizer trains with the latter",
                       s->init_from, hash, s->data ? s->data : s->igsm_tokenizer,
                       kvs_tokenizer_hash(w->tokenizer));
    else
        st = kvs_model_set_eos(w->model, NULL, 0, err); /* they were ids of the old tokenizer */
    if (st == KVS_OK && kvs_comm_rank(w->comm) == 0)
        fprintf(stderr, "kvshift: '%s' is trained with the tokenizer of '%s'\n", s->init_from,
                s->data ? s->data : s->igsm_tokenizer);
out:
    kvs_tokenizer_free(models);
    return st;
}

/* ---- the task -------------------------------------------------------------------------------- */

/* --dry-run of a preset without a task or data is planned for text. */
static int plans_text(const kvsi_train_options *s, const kvsi_parsed_options *parsed)
{
    return s->dry_run && s->preset && !s->init_from && !kvsi_train_names_task(s, parsed);
}

/* The task sets the vocabulary.  A model may have more tokens, except for ngram, whose options set
 * the exact number. */
static kvs_status take_vocab(const kvsi_train_setup *w, kvsi_train_options *s,
                             const kvsi_parsed_options *parsed, kvs_err *err)
{
    const size_t needed = kvs_data_vocab(w->data), vocab = kvsi_model_count(s->model, "vocab");
    const int given = kvsi_train_is_given(parsed, "vocab");

    if (w->model || (given && vocab >= needed && !kvsi_train_is_task(s, "ngram")))
        return KVS_OK;
    if (given && vocab != needed)
        return kvsi_fail(err, KVS_E_INVALID, "option '--vocab' is %zu, but task %s has %zu tokens",
                         vocab, s->task, needed);
    return kvs_model_config_set_number(s->model, "vocab", (double)needed, err);
}

/* Induction uses the vocabulary of the model; other tasks and text set it. */
static kvs_status create_data(kvsi_train_setup *w, kvsi_train_options *s,
                              const kvsi_parsed_options *parsed, kvs_err *err)
{
    kvs_task_options options;

    if (s->data)
        return open_text(w, s, parsed, err);
    if (s->igsm_tokenizer) /* an option of the task igsm, which other tasks refuse */
        TRY(kvs_tokenizer_load(&w->tokenizer, s->igsm_tokenizer, err));
    kvs_task_options_init(&options, sizeof options);
    options.vocab = kvsi_model_count(s->model, "vocab");
    options.seed = kvsi_train_count(s->train, "seed");
    options.tokenizer = w->tokenizer;
    TRY(kvs_task_create(&w->data, kvsi_train_task(s), &options, err));
    return kvsi_train_is_task(s, "induction") ? KVS_OK : take_vocab(w, s, parsed, err);
}

static kvs_status check_lora(const kvsi_train_options *s, const kvsi_parsed_options *parsed,
                             kvs_err *err)
{
    if (s->lora == 0 && kvsi_train_is_given_now(parsed, "lora"))
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--lora': expected a rank of at least 1, found '0'");
    if (s->lora > 0 && !s->init_from)
        return kvsi_fail(err, KVS_E_INVALID, "option '--lora' needs '--init-from'");
    if (s->lora > 0 && kvs_train_config_number(s->train, "only-shift") > 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "options '--lora' and '--only-shift' exclude each other: adapters are "
                         "trained together with the shift");
    if (s->lora == 0 && (s->lora_alpha > 0 || s->lora_on))
        return kvsi_fail(err, KVS_E_INVALID, "option '--%s' needs '--lora'",
                         s->lora_on ? "lora-on" : "lora-alpha");
    return KVS_OK;
}

/* Opens the data and completes the configuration of the model.  Allocates no new model yet. */
static kvs_status prepare(kvsi_train_setup *w, kvsi_train_options *s,
                          const kvsi_parsed_options *parsed, kvs_err *err)
{
    kvs_runtime_options runtime;
    size_t context;

    if ((s->resume || kvsi_train_count(s->train, "checkpoint-every") > 0) && !s->out && !s->dry_run)
        return kvsi_fail(err, KVS_E_INVALID, "option '--%s' needs '--out'",
                         s->resume ? "resume" : "checkpoint-every");
    if (s->valid_data && !s->data)
        return kvsi_fail(err, KVS_E_INVALID, "option '--valid-data' needs '--data'");
    if (s->epochs > 0 && !s->data)
        return kvsi_fail(err, KVS_E_INVALID, "option '--epochs' needs '--data'");
    if (!s->data)
        TRY(kvsi_train_refuse_record_options(s, parsed, err));
    if ((s->retrofit || s->new_tokenizer) && !s->init_from)
        return kvsi_fail(err, KVS_E_INVALID, "option '--%s' needs '--init-from'",
                         s->retrofit ? "retrofit" : "new-tokenizer");
    TRY(check_lora(s, parsed, err));
    if (!s->dry_run && s->show == 0 &&
        kvs_comm_rank(w->comm) == 0) /* only rank 0 writes to the folder */
        TRY(kvsi_train_check_out(s, err));
    TRY(kvs_train_config_check(s->train, err));
    kvs_runtime_options_init(&runtime, sizeof runtime);
    runtime.threads = (int)s->threads;
    runtime.cpu_level = s->cpu_level;
    runtime.comm = w->comm;
    runtime.shard_parameters = kvsi_train_is(s->train, "shard", "parameters");
    TRY(kvs_runtime_create(&w->rt, &runtime, err));
    if (s->init_from)
        TRY(load_model(w, s, parsed, err));
    if (!plans_text(s, parsed))
        TRY(create_data(w, s, parsed, err));
    TRY(compare_tokenizers(w, s, err));
    context = w->data ? kvs_data_max_length(w->data) : TEXT_CONTEXT;
    if (kvsi_model_count(s->model, "context") == 0)
        TRY(kvs_model_config_set_number(s->model, "context", (double)context, err));
    return kvs_model_config_finish(s->model, err);
}

/* All ranks check the memory before any of them allocates it. */
kvs_status kvsi_train_setup_create(kvsi_train_setup *w, kvsi_train_options *s,
                                   const kvsi_parsed_options *parsed, kvs_err *err)
{
    kvs_status st = prepare(w, s, parsed, err);

    TRY_OUT(kvs_comm_agree(w->comm, st, err));
    st = check_memory(w, s, s->model, 0, err);
    TRY_OUT(kvs_comm_agree(w->comm, st, err));
    if (!w->model && !s->dry_run)
        st = kvs_model_create(&w->model, w->rt, s->model, kvsi_train_count(s->train, "seed"), err);
    TRY_OUT(kvs_comm_agree(w->comm, st, err));
out:
    return st;
}

void kvsi_train_setup_release(kvsi_train_setup *w)
{
    kvs_model_free(w->model);
    kvs_data_free(w->data);
    kvs_tokenizer_free(w->tokenizer);
    kvs_chat_template_free(w->chat_template);
    kvs_corpus_close(w->corpus);
    kvs_runtime_free(w->rt);
}
