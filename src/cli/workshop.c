#include "cli/workshop.h"

/* Of text: tokens in a window, and windows of an evaluation, where nothing else is said. */
enum { TEXT_CONTEXT = 256, TEXT_EVAL_WINDOWS = 256 };

/* The loaded model gives way to one with a shift, window 1, that starts as the identity. */
static kvs_status retrofit_model(kvsi_workshop *w, const char *targets, kvs_err *err)
{
    kvs_shift_config shift = {.form = KVS_SHIFT_FREE, .window = 1};
    kvs_model *shifted = NULL;
    kvs_status st;

    KVS_TRY(kvs_shift_targets_parse(&shift.targets, targets, err));
    KVS_TRY(kvs_model_retrofit(&shifted, w->rt, w->model, &shift, err));
    kvs_model_free(w->model);
    w->model = shifted;
out:
    return st;
}

static kvs_status load_model(kvsi_workshop *w, kvsi_train_settings *s,
                             const kvsi_parsed_options *parsed, kvs_err *err)
{
    kvs_status st;

    KVS_TRY(kvs_model_load(&w->model, w->rt, s->init_from, err));
    KVS_TRY(kvsi_train_check_agreement(s, parsed, kvs_model_get_config(w->model), err));
    if (s->retrofit)
        KVS_TRY(retrofit_model(w, s->retrofit, err));
    kvsi_train_settings_from_model(s, kvs_model_get_config(w->model));
out:
    return st;
}

/* Text brings its vocabulary; windows are as long as the context. */
static kvs_status open_text(kvsi_workshop *w, kvsi_train_settings *s,
                            const kvsi_parsed_options *parsed, kvs_err *err)
{
    uint64_t windows;
    kvs_status st;

    KVS_TRY(kvs_corpus_open(&w->corpus, s->data, NULL, err));
    KVS_TRY(kvs_corpus_tokenizer(&w->tokenizer, w->corpus, err));
    if (!w->model && !kvsi_train_is_given(parsed, "vocab"))
        s->model.vocab = kvs_corpus_get_info(w->corpus)->vocab;
    if (s->model.context == 0)
        s->model.context = TEXT_CONTEXT;
    KVS_TRY(kvs_corpus_task(&w->task, w->corpus, s->model.context, err));
    windows = kvs_corpus_windows(w->corpus, KVS_SPLIT_VALID, s->model.context);
    if (!kvsi_train_is_given(parsed, "eval-sequences"))
        s->eval_sequences = windows < TEXT_EVAL_WINDOWS ? (size_t)windows : TEXT_EVAL_WINDOWS;
out:
    return st;
}

/* A plan for a model without a word on what it is to learn is one for text. */
static int plans_text(const kvsi_train_settings *s, const kvsi_parsed_options *parsed)
{
    return s->dry_run && s->preset && !s->init_from && !kvsi_train_names_task(s, parsed);
}

static kvs_status create_igsm(kvsi_workshop *w, const kvsi_train_settings *s, kvs_err *err)
{
    kvs_igsm_config config = s->igsm;
    kvs_status st;

    if (s->igsm_tokenizer)
        KVS_TRY(kvs_tokenizer_load(&w->tokenizer, s->igsm_tokenizer, err));
    config.tokenizer = w->tokenizer;
    KVS_TRY(kvs_igsm_create(&w->task, &config, err));
out:
    return st;
}

/* The task knows how many tokens it has; a model may have more, but for ngram, whose number is what
 * its options say. */
static kvs_status take_vocab(const kvsi_workshop *w, kvsi_train_settings *s,
                             const kvsi_parsed_options *parsed, kvs_err *err)
{
    const size_t vocab = kvs_task_vocab(w->task);
    const int given = kvsi_train_is_given(parsed, "vocab");

    if (w->model || (given && s->model.vocab >= vocab && !kvsi_train_is_task(s, "ngram")))
        return KVS_OK;
    if (given && s->model.vocab != vocab)
        return kvsi_fail(err, KVS_E_INVALID, "option '--vocab' is %zu, but task %s has %zu tokens",
                         s->model.vocab, s->task, vocab);
    s->model.vocab = vocab;
    return KVS_OK;
}

/* The words of induction are the model's; other tasks and text bring their own number. */
static kvs_status create_task(kvsi_workshop *w, kvsi_train_settings *s,
                              const kvsi_parsed_options *parsed, kvs_err *err)
{
    kvs_status st;

    if (s->data)
        return open_text(w, s, parsed, err);
    if (kvsi_train_is_task(s, "induction")) {
        s->induction.vocab = s->model.vocab;
        return kvs_induction_create(&w->task, &s->induction, err);
    }
    if (kvsi_train_is_task(s, "ngram"))
        KVS_TRY(kvs_ngram_create(&w->task, &s->ngram, err));
    else if (kvsi_train_is_task(s, "hopk"))
        KVS_TRY(kvs_hopk_create(&w->task, &s->hopk, err));
    else
        KVS_TRY(create_igsm(w, s, err));
    KVS_TRY(take_vocab(w, s, parsed, err));
out:
    return st;
}

static kvs_status create_model(kvsi_workshop *w, kvsi_train_settings *s, kvs_err *err)
{
    kvs_status st;

    if (s->model.context == 0)
        s->model.context = w->task ? kvs_task_max_length(w->task) : TEXT_CONTEXT;
    KVS_TRY(kvs_model_config_finish(&s->model, err));
    if (s->dry_run)
        return KVS_OK;
    KVS_TRY(kvs_model_create(&w->model, w->rt, &s->model, s->train.seed, err));
out:
    return st;
}

kvs_status kvsi_workshop_furnish(kvsi_workshop *w, kvsi_train_settings *s,
                                 const kvsi_parsed_options *parsed, kvs_err *err)
{
    const kvs_runtime_options runtime = {
        .threads = (int)s->threads,
        .cpu_level = s->cpu_level,
        .comm = w->comm,
        .spread = s->train.shard == KVS_SHARD_PARAMETERS,
    };
    kvs_status st;

    if ((s->resume || s->checkpoint_every > 0) && !s->out && !s->dry_run)
        return kvsi_fail(err, KVS_E_INVALID, "option '--%s' needs '--out'",
                         s->resume ? "resume" : "checkpoint-every");
    KVS_TRY(kvs_train_config_check(&s->train, err));
    KVS_TRY(kvs_runtime_create(&w->rt, &runtime, err));
    if (s->retrofit && !s->init_from)
        return kvsi_fail(err, KVS_E_INVALID, "option '--retrofit' needs '--init-from'");
    if (s->init_from)
        KVS_TRY(load_model(w, s, parsed, err));
    if (!plans_text(s, parsed))
        KVS_TRY(create_task(w, s, parsed, err));
    if (!w->model)
        KVS_TRY(create_model(w, s, err));
out:
    return st;
}

void kvsi_workshop_clear(kvsi_workshop *w)
{
    kvs_model_free(w->model);
    kvs_task_free(w->task);
    kvs_tokenizer_free(w->tokenizer);
    kvs_corpus_free(w->corpus);
    kvs_runtime_free(w->rt);
}
