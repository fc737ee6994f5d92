#include "cli/train_options.h"

#include "base/memory.h"
#include "base/options_config.h"
#include "cli/train_resume.h"

#include <string.h>

/* ---- the table ------------------------------------------------------------------------------- */

static const char *const body_names[] = {"llama", "gpt2", NULL};
static const char *const shift_names[] = {"none", "k",     "v",     "kv", "qkv",
                                          "gate", "clamp", "smear", NULL};
static const char *const resume_names[] = {"newest", "auto", NULL};
static const char *const retrofit_names[] = {"k", "v", "kv", "qkv", NULL};
static const char *const form_names[] = {"free", "gate", "clamp", "channel", "data", "hard", NULL};
static const char *const init_names[] = {"uniform", "softmax", "identity", NULL};
static const char *const position_names[] = {"rope", "alibi", "learned", "none", NULL};
static const char *const head_names[] = {"linear", "normalised", "none", NULL};
static const char *const schedule_names[] = {"constant", "linear", "cosine", NULL};
static const char *const task_names[] = {"induction", "ngram", "hopk", "igsm", NULL};
static const char *const shard_names[] = {"none", "optimizer", "gradients", "parameters", NULL};
/* In the order of their enums. */
static const char *const sampler_names[] = {"direct", "paper", NULL};
static const char *const loss_names[] = {"answer", "all", NULL};
static const char *const igsm_modes[] = {"paper", "official", NULL};
static const char *const igsm_wordings[] = {"full", "compact", NULL};

static const char SHAPE[] = "Start from", MODEL[] = "Model", TASK[] = "Task",
                  INDUCTION[] = "Task induction", NGRAM[] = "Task ngram", HOPK[] = "Task hopk",
                  IGSM[] = "Task igsm", TRAINING[] = "Training", SAMPLES[] = "Samples",
                  RANKS[] = "Ranks", RUN[] = "Run";

#define FIELD(name) offsetof(kvsi_train_settings, name)
#define ROW(option, type, member, in, what, about)                                                 \
    .name = (option), .kind = (type), .offset = FIELD(member), .group = (in),                      \
    .placeholder = (what), .help = (about)
#define FLAG(option, member, in, about)                                                            \
    {                                                                                              \
        ROW(option, KVSI_OPTION_FLAG, member, in, NULL, about)                                     \
    }
#define SIZE(option, member, in, about, least, most)                                               \
    {                                                                                              \
        ROW(option, KVSI_OPTION_SIZE, member, in, "N", about), .low = (least), .high = (most)      \
    }
#define COUNT(option, member, in, about, least, most)                                              \
    {                                                                                              \
        ROW(option, KVSI_OPTION_UINT64, member, in, "N", about), .low = (least), .high = (most)    \
    }
#define REAL(option, member, in, about, least, most)                                               \
    {                                                                                              \
        ROW(option, KVSI_OPTION_REAL, member, in, "X", about), .low = (least), .high = (most)      \
    }
#define CHOICE(option, member, in, about, names)                                                   \
    {                                                                                              \
        ROW(option, KVSI_OPTION_CHOICE, member, in, "NAME", about), .choices = (names)             \
    }
/* Nothing given = decided from the rest. */
#define AUTOMATIC(option, type, member, in, what, about, meaning)                                  \
    {                                                                                              \
        ROW(option, type, member, in, what, about), .automatic = (meaning)                         \
    }
#define AUTOMATIC_SIZE(option, member, in, about, meaning)                                         \
    AUTOMATIC(option, KVSI_OPTION_SIZE, member, in, "N", about, meaning)
#define TEXT(option, member, in, what, about, meaning)                                             \
    AUTOMATIC(option, KVSI_OPTION_TEXT, member, in, what, about, meaning)

/* clang-format off */
static const kvsi_option options[] = {
    TEXT("model", preset, SHAPE, "NAME",
         "a preset, one of paper-1.5b, -2.9b, -6.7b, -13b, -19b, kvlm, desk-1m, -3m, -10m, -30m "
         "and -110m, or a config.json; the options below override it", "none"),
    CHOICE("body", body, MODEL, "what surrounds the attention", body_names),
    CHOICE("shift", shift, MODEL, "what is mixed with the tokens before", shift_names),
    CHOICE("shift-form", shift_form, MODEL, "how the mixing numbers are formed", form_names),
    SIZE("shift-window", model.shift.window, MODEL, "tokens before that take part",
         1, KVS_SHIFT_WINDOW_MAX),
    CHOICE("shift-init", shift_init, MODEL, "what the mixing numbers start from", init_names),
    SIZE("layers", model.layers, MODEL, "number of layers", 1, 0),
    SIZE("dim", model.dim, MODEL, "width of the model", 1, 0),
    SIZE("heads", model.heads, MODEL, "attention heads; must divide --dim", 1, 0),
    AUTOMATIC_SIZE("kv-heads", model.kv_heads, MODEL,
                   "heads of keys and values; must divide --heads", "as many as --heads"),
    AUTOMATIC_SIZE("ffn", model.ffn, MODEL, "width of the feed-forward part",
                   "8/3 of --dim, rounded up to 16; gpt2: 4 times --dim"),
    AUTOMATIC_SIZE("context", model.context, MODEL, "longest sequence, in tokens",
                   "what the task needs"),
    SIZE("vocab", model.vocab, MODEL, "number of tokens; tasks other than induction know theirs",
         1, 0),
    {ROW("positions", KVSI_OPTION_CHOICE, positions, MODEL, "NAME", "how positions are told"),
     .choices = position_names, .automatic = "rope; gpt2: learned"},
    REAL("rope-base", model.rope_base, MODEL, "base of the rotary positions", 0, 0),
    REAL("rotary-fraction", model.rotary_fraction, MODEL, "share of a head's channels that rotates",
         0, 1),
    AUTOMATIC("slopes", KVSI_OPTION_REALS, slopes, MODEL, "X,...",
              "slopes of alibi: one for all heads or one a head", "falling by head, 2^-8i/heads"),
    AUTOMATIC("score-scale", KVSI_OPTION_REAL, model.score_scale, MODEL, "X",
              "factor of the attention scores", "1 / root of the head size"),
    AUTOMATIC_SIZE("sliding-window", model.sliding_window, MODEL,
                   "tokens that attention looks back over, its own included", "all"),
    AUTOMATIC("sliding-layers", KVSI_OPTION_SIZES, sliding_layers, MODEL, "N,...",
              "layers with the sliding window, the first is 0", "every layer"),
    AUTOMATIC_SIZE("sliding-heads", model.sliding_heads, MODEL, "attention heads of those layers",
                   "as the others"),
    AUTOMATIC_SIZE("sliding-kv-heads", model.sliding_kv_heads, MODEL,
                   "heads of keys and values of those layers", "as the others"),
    CHOICE("head", head, MODEL, "how outputs become logits", head_names),
    FLAG("tied", model.tied, MODEL, "share the embedding table with the output head"),
    REAL("dropout", dropout, MODEL, "share dropped in all three places below", 0, 1),
    REAL("dropout-embedding", model.dropout_embedding, MODEL, "of the embeddings", 0, 1),
    REAL("dropout-attention", model.dropout_attention, MODEL, "of the attention weights", 0, 1),
    REAL("dropout-residual", model.dropout_residual, MODEL, "of what attention and MLP add", 0, 1),
    FLAG("no-residual", model.no_residual, MODEL, "layers replace their input, not add to it"),
    FLAG("no-mlp", model.no_mlp, MODEL, "attention only"),
    FLAG("no-norm", model.no_norm, MODEL, "no norms"),
    REAL("norm-eps", model.norm_eps, MODEL, "epsilon of the norms", 0, 0),
    REAL("init-std", model.init_std, MODEL, "standard deviation of new weights", 0, 0),
    FLAG("identity-projections", model.identity_projections, MODEL,
         "attention's matrices start as identities"),
    FLAG("unit-embeddings", model.unit_embeddings, MODEL, "embeddings start with length 1"),

    CHOICE("task", task, TASK, "what is learned", task_names),
    TEXT("data", data, TASK, "PATH",
         "learn text instead: a corpus of 'kvshift data build', or a .bin of llm.c or nanoGPT, "
         "with --vocab", "none"),
    TEXT("valid-data", valid_data, TASK, "FILE", "a second .bin that is the validation text",
         "the end of --data, 5 % of it"),
    SIZE("pool", induction.pool, INDUCTION,
         "tokens a sequence draws from; fewer make it shorter", 2, 0),
    SIZE("max-length", induction.max_length, INDUCTION, "longest sequence, in tokens", 1, 0),
    CHOICE("sampler", sampler, INDUCTION, "how sequences are drawn, both from one distribution",
           sampler_names),
    CHOICE("loss", loss, INDUCTION, "tokens that are learned from", loss_names),
    SIZE("alphabet", ngram.alphabet, NGRAM, "tokens that pairs are made of", 1, 0),
    SIZE("pairs", ngram.pairs, NGRAM, "pairs to memorise, all different", 1, 0),
    SIZE("answers", ngram.answers, NGRAM, "tokens that answers are drawn from", 1, 0),
    SIZE("letters", hopk.letters, HOPK, "different letters", 2, 64),
    SIZE("string", hopk.length, HOPK, "letters of a sequence", 1, 65536),
    SIZE("hops", hopk.hops, HOPK, "most hops; each sequence has a number of its own", 0, 4096),
    AUTOMATIC("only-hops", KVSI_OPTION_SIZES, only_hops, HOPK, "N", "all sequences have this many",
              "0 to --hops"),
    COUNT("train-sequences", hopk.sequences, HOPK,
          "sequences to train on, over and over; 0 = always fresh ones", 0, 0),
    CHOICE("mode", igsm_mode, IGSM,
           "whose problems: the generator that the paper starts from, or the official one",
           igsm_modes),
    CHOICE("wording", igsm_wording, IGSM, "sentences, or what carries meaning alone",
           igsm_wordings),
    SIZE("min-op", igsm.min_op, IGSM, "fewest operations of a problem", 1, 0),
    SIZE("max-op", igsm.max_op, IGSM, "most operations of a problem", 1, 0),
    SIZE("items", igsm.items, IGSM, "mode paper: most items of a category", 1, 10),
    SIZE("edges", igsm.edges, IGSM, "mode official: most pairs of things", 12, 48),
    SIZE("problem-length", igsm.max_length, IGSM, "longest problem with solution, in tokens", 64,
         16384),
    FLAG("solution-only", igsm.solution_only, IGSM,
         "learn from solutions alone, not from problems"),
    TEXT("text-tokenizer", igsm_tokenizer, IGSM, "FILE", "tokens of the text, as for 'data build'",
         "each word is one"),

    COUNT("steps", train.steps, TRAINING, "optimizer steps", 1, 0),
    SIZE("batch", train.batch, TRAINING, "sequences a step", 1, 0),
    SIZE("accumulate", train.accumulate, TRAINING, "parts a batch is computed in; must divide it",
         1, 0),
    REAL("lr", train.lr, TRAINING, "learning rate", 0, 0),
    CHOICE("schedule", schedule, TRAINING, "course of the rate after the warm-up", schedule_names),
    REAL("lr-floor", train.lr_floor, TRAINING, "share of the rate left at the last step", 0, 1),
    COUNT("warmup", train.warmup, TRAINING, "steps over which the rate rises", 0, 0),
    REAL("beta1", train.beta1, TRAINING, "AdamW: decay of the mean gradient", 0, 1),
    REAL("beta2", train.beta2, TRAINING, "AdamW: decay of the mean square", 0, 1),
    REAL("eps", train.eps, TRAINING, "AdamW: epsilon", 0, 0),
    REAL("weight-decay", train.weight_decay, TRAINING, "AdamW: decay of the weights", 0, 0),
    AUTOMATIC("shift-lr", KVSI_OPTION_REAL, train.shift_lr, TRAINING, "X",
              "learning rate of the shift's own numbers, on the same schedule", "as --lr"),
    REAL("shift-decay", train.shift_decay, TRAINING, "decay of the shift's own numbers", 0, 0),
    FLAG("decay-all", train.decay_all, TRAINING,
         "--weight-decay for every tensor: gains and biases too, and the shift unless it has its "
         "own"),
    FLAG("only-shift", train.only_shift, TRAINING, "train the shift's numbers and nothing else"),
    REAL("clip", train.clip, TRAINING, "largest gradient norm, 0 = no clipping", 0, 0),
    COUNT("eval-every", eval_every, TRAINING,
          "steps between evaluations, 0 = only at the end; by default --data has 10 to 20",
          0, 0),
    SIZE("eval-sequences", eval_sequences, TRAINING, "fresh sequences an evaluation uses", 1, 0),
    FLAG("eval-dropout", train.eval_dropout, TRAINING, "dropout stays on when evaluating"),
    FLAG("recompute", train.recompute, TRAINING,
         "compute layers again in the backward pass: less memory, more time"),

    COUNT("sample-every", sample_every, SAMPLES,
          "steps between texts that the model makes, with --data; 0 = none", 0, 0),
    TEXT("sample-prompt", sample_prompt, SAMPLES, "TEXT", "what they go on from",
         "the validation text's first 8 tokens"),
    SIZE("sample-tokens", sample_tokens, SAMPLES, "tokens of each, at most", 1, 1 << 20),
    REAL("sample-temp", sample_temp, SAMPLES, "temperature; 0 takes the likeliest token", 0, 0),

    CHOICE("shard", shard, RANKS,
           "what is spread over the ranks beside the work, each with those before it", shard_names),
    FLAG("deterministic", train.deterministic, RANKS,
         "the same bits on 1, 2 and 4 ranks; 4 must divide --batch"),
    REAL("rank-timeout", rank_timeout, RANKS,
         "minutes that a rank waits for the others before it ends the run; 0 = no limit", 0, 0),

    COUNT("seed", train.seed, RUN, "seed of the weights and of the data",
          0, 999999999999999), /* exact as a JSON number, whoever reads it */
    {ROW("threads", KVSI_OPTION_SIZE, threads, RUN, "N",
         "number of threads; results do not depend on it"),
     .automatic = "every core", .high = 1024},
    TEXT("cpu-level", cpu_level, RUN, "NAME", "processor code to run, see 'kvshift version'",
         "auto"),
    TEXT("out", out, RUN, "DIR", "folder for the model, its log and its result", "keep nothing"),
    COUNT("checkpoint-every", checkpoint_every, RUN,
          "steps between checkpoints in the run's folder, 0 = none", 0, 0),
    SIZE("keep", keep, RUN, "newest checkpoints that are kept, 0 = all", 0, 0),
    REAL("max-time", max_time, RUN,
         "minutes after which the run ends in order, with a checkpoint; 0 = no limit", 0, 0),
    {ROW("resume", KVSI_OPTION_CHOICE, resume, RUN, "NAME",
         "continue the run in --out, with its settings, from its newest checkpoint; auto: start "
         "a new run if there is none"),
     .choices = resume_names, .implied = "newest", .automatic = "start anew"},
    TEXT("init-from", init_from, RUN, "MODEL",
         "start from this model, a folder or a file, which also sets the model options",
         "random weights"),
    {ROW("retrofit", KVSI_OPTION_CHOICE, retrofit, RUN, "NAME",
         "add a shift that changes nothing yet to the ordinary model of --init-from"),
     .choices = retrofit_names, .automatic = "none"},
    FLAG("new-tokenizer", new_tokenizer, RUN,
         "train the model of --init-from with the tokenizer of --data although it has another"),
    SIZE("show", show, RUN, "print this many of the task's training sequences, and stop; 0 = train",
         0, 1e6),
    FLAG("dry-run", dry_run, RUN, "say what memory and work it would take, and stop"),
    FLAG("overcommit", overcommit, RUN, "start although it needs more memory than is free"),
    FLAG("profile", profile, RUN, "say how long steps took, and what ranks waited for"),
    FLAG("quiet", quiet, RUN, "no progress"),
    FLAG("json", json, RUN, "print the result as one JSON object"),
};
/* clang-format on */

enum { OPTIONS = sizeof options / sizeof *options };
KVSI_OPTIONS_FIT((int)OPTIONS + (int)KVSI_OPTIONS_BESIDE_MODEL);

const kvsi_command_options kvsi_train_command = {
    .command = "kvshift train",
    .purpose = "Trains a model on a synthetic task or on text and measures it.  The folder --out "
               "then holds "
               "model.safetensors, config.json, train.jsonl (one record a step) and result.json.",
    .notes =
        "Short names: --shift gate and --shift clamp are kv with that form, --shift smear is "
        "k with\nform gate.\n"
        "\n"
        "SIGINT (Ctrl-C) or SIGTERM ends the run in order after the current step: the model "
        "is\nevaluated and saved, with a checkpoint to --resume from, and the exit code is 130 "
        "or 143.\nA second signal ends it at once.  SIGUSR1 makes a checkpoint and goes on.  "
        "--max-time ends\nit as a signal does, with exit code 0.\n"
        "Other exit codes: 0 done, 1 failed, 2 misuse.\n"
        "\n"
        "'mpirun -np 4 kvshift train ...' shares the work among 4 processes, on one machine or "
        "many;\nsee docs/cluster.md.",
    .options = options,
    .count = OPTIONS,
    .takes_config = 1,
};

int kvsi_is_model_option(const kvsi_option *option)
{
    return option->group == MODEL;
}

/* ---- defaults -------------------------------------------------------------------------------- */

void kvsi_train_set_defaults(kvsi_train_settings *s, kvs_body body)
{
    *s = (kvsi_train_settings){
        .eval_sequences = 4096,
        .keep = 3,
        .sample_tokens = 64,
        .sample_temp = 0.8,
        .rank_timeout = 60,
    };
    kvs_model_config_init(&s->model);
    kvs_model_config_set_body(&s->model, body);
    kvs_induction_config_init(&s->induction);
    kvs_ngram_config_init(&s->ngram);
    kvs_hopk_config_init(&s->hopk);
    kvs_igsm_config_init(&s->igsm);
    s->igsm_mode = igsm_modes[s->igsm.mode];
    s->igsm_wording = igsm_wordings[s->igsm.wording];
    kvs_train_config_init(&s->train);
    s->model.vocab = s->induction.vocab;
    s->model.layers = 1;
    s->model.dim = 128;
    s->model.heads = 4;
    s->model.kv_heads = 0;
    s->model.context = 0;
    s->model.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    s->train.batch = 128;
    s->train.lr = 1e-3;
    s->train.steps = 1000;
    s->train.warmup = 50;
    s->train.seed = 1;
    s->task = task_names[0];
    s->schedule = kvs_schedule_name(s->train.schedule);
    s->shard = kvs_shard_name(s->train.shard);
    s->sampler = sampler_names[s->induction.sampler];
    s->loss = loss_names[s->induction.loss];
    kvsi_train_settings_from_model(s, &s->model);
}

void kvsi_train_settings_from_model(kvsi_train_settings *s, const kvs_model_config *config)
{
    s->model = *config;
    s->body = kvs_body_name(config->body);
    s->shift = kvs_shift_targets_name(config->shift.targets);
    s->shift_form = kvs_shift_form_name(config->shift.form);
    s->shift_init = kvs_shift_init_name(config->shift.init);
    s->positions = kvs_positions_name(config->positions);
    s->head = kvs_head_name(config->head);
    s->slopes = (kvsi_number_list){.count = config->slopes};
    for (size_t i = 0; i < config->slopes; i++)
        s->slopes.numbers[i] = config->slope[i];
    s->sliding_layers = (kvsi_number_list){0};
    for (size_t l = 0; l < KVS_LISTED_LAYERS_MAX; l++)
        if (config->sliding_layers >> l & 1)
            s->sliding_layers.numbers[s->sliding_layers.count++] = (double)l;
}

/* ---- from words to values -------------------------------------------------------------------- */

/* Index of an option that the table has. */
static size_t index_of_option(const char *name)
{
    size_t i = 0;

    while (i < OPTIONS - 1 && strcmp(options[i].name, name) != 0)
        i++;
    return i;
}

int kvsi_train_is_given(const kvsi_parsed_options *parsed, const char *option)
{
    return kvsi_option_is_given(parsed, index_of_option(option));
}

/* From here on the option counts as given, by what implied it. */
static void imply(kvsi_parsed_options *parsed, const char *option, const char *by)
{
    parsed->source[index_of_option(option)] = parsed->source[index_of_option(by)];
    parsed->line[index_of_option(option)] = parsed->line[index_of_option(by)];
}

/* Position of a name the parser has already found to be in the list. */
static unsigned index_of(const char *const *names, const char *name)
{
    unsigned i = 0;

    while (names[i] && strcmp(names[i], name) != 0)
        i++;
    return i;
}

int kvsi_train_is_task(const kvsi_train_settings *s, const char *name)
{
    return !s->data && strcmp(s->task, name) == 0;
}

/* A short name says the form too. */
static kvs_status settle_shift(kvsi_train_settings *s, kvsi_parsed_options *parsed, kvs_err *err)
{
    kvs_shift_config *shift = &s->model.shift;
    kvs_shift_config said = *shift;
    int form_said = 0;

    TRY(kvs_shift_parse(&said, &form_said, s->shift, err));
    TRY(kvs_shift_form_parse(&shift->form, s->shift_form, err));
    TRY(kvs_shift_init_parse(&shift->init, s->shift_init, err));
    if (form_said && kvsi_train_is_given(parsed, "shift-form") && said.form != shift->form)
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--shift-form' is %s, but '--shift %s' means form %s",
                         s->shift_form, s->shift, kvs_shift_form_name(said.form));
    shift->targets = said.targets;
    if (form_said) {
        shift->form = said.form;
        imply(parsed, "shift-form", "shift");
    }
    return KVS_OK;
}

static void settle_dropout(kvsi_train_settings *s, kvsi_parsed_options *parsed)
{
    const struct {
        const char *option;
        double *value;
    } places[] = {
        {"dropout-embedding", &s->model.dropout_embedding},
        {"dropout-attention", &s->model.dropout_attention},
        {"dropout-residual", &s->model.dropout_residual},
    };

    if (!kvsi_train_is_given(parsed, "dropout"))
        return;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (kvsi_train_is_given(parsed, places[i].option))
            continue;
        *places[i].value = s->dropout;
        imply(parsed, places[i].option, "dropout");
    }
}

static kvs_status settle_lists(kvsi_train_settings *s, kvs_err *err)
{
    if (s->slopes.count > KVS_SLOPES_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "option '--slopes': expected at most %d, found %zu",
                         (int)KVS_SLOPES_MAX, s->slopes.count);
    s->model.slopes = s->slopes.count;
    for (size_t i = 0; i < s->slopes.count; i++)
        s->model.slope[i] = s->slopes.numbers[i];
    s->model.sliding_layers = 0;
    for (size_t i = 0; i < s->sliding_layers.count; i++) {
        const double layer = s->sliding_layers.numbers[i];

        if (layer >= KVS_LISTED_LAYERS_MAX)
            return kvsi_fail(err, KVS_E_INVALID,
                             "option '--sliding-layers': expected layers 0 to %d, found %.15g",
                             KVS_LISTED_LAYERS_MAX - 1, layer);
        s->model.sliding_layers |= (uint64_t)1 << (unsigned)layer;
    }
    return KVS_OK;
}

/* The body decides the defaults of everything else; a preset or a file comes with its own. */
static kvs_status check_body(const kvsi_train_settings *s, kvs_err *err)
{
    kvs_body body = s->model.body;
    const kvs_status st = kvs_body_parse(&body, s->body, err);

    if (st == KVS_OK && body != s->model.body)
        return kvsi_fail(err, KVS_E_INVALID, "option '--body' is %s, but '%s' has %s", s->body,
                         s->preset, kvs_body_name(s->model.body));
    return st;
}

static kvs_status settle_tasks(kvsi_train_settings *s, kvs_err *err)
{
    s->induction.sampler = (kvs_induction_sampler)index_of(sampler_names, s->sampler);
    s->induction.loss = (kvs_loss_rows)index_of(loss_names, s->loss);
    s->ngram.seed = s->train.seed;
    s->igsm.mode = (kvs_igsm_mode)index_of(igsm_modes, s->igsm_mode);
    s->igsm.wording = (kvs_igsm_wording)index_of(igsm_wordings, s->igsm_wording);
    if (s->only_hops.count > 1)
        return kvsi_fail(err, KVS_E_INVALID, "option '--only-hops': expected one number, found %zu",
                         s->only_hops.count);
    s->hopk.only = s->only_hops.count == 1 ? (size_t)s->only_hops.numbers[0] : KVS_HOPS_ALL;
    return KVS_OK;
}

/* Turns names and lists into what they stand for; then they are said the one way the model says
 * them. */
static kvs_status settle(kvsi_train_settings *s, kvsi_parsed_options *parsed, kvs_err *err)
{
    TRY(check_body(s, err));
    TRY(settle_shift(s, parsed, err));
    TRY(kvs_positions_parse(&s->model.positions, s->positions, err));
    TRY(kvs_head_parse(&s->model.head, s->head, err));
    TRY(kvs_schedule_parse(&s->train.schedule, s->schedule, err));
    TRY(kvs_shard_parse(&s->train.shard, s->shard, err));
    TRY(settle_lists(s, err));
    settle_dropout(s, parsed);
    TRY(settle_tasks(s, err));
    kvsi_train_settings_from_model(s, &s->model);
    return KVS_OK;
}

/* Does a file say what holds anyway?  Files that list all options are full of that. */
static int repeats_default(const kvsi_train_settings *s, const kvsi_parsed_options *parsed,
                           size_t index)
{
    kvsi_train_settings defaults;
    kvsi_text ours = {0}, plain = {0};
    int same;

    if (parsed->source[index] != KVSI_FROM_FILE)
        return 0;
    kvsi_train_set_defaults(&defaults, s->model.body);
    kvsi_option_print(&ours, options + index, s);
    kvsi_option_print(&plain, options + index, &defaults);
    /* Memory that ran out is reported as such at the next check, not as misuse here. */
    same = ours.failed || plain.failed || strcmp(ours.data, plain.data) == 0;
    kvsi_text_release(&ours);
    kvsi_text_release(&plain);
    return same;
}

/* A run learns a task or a text: of the two the one that was said later, in the order file,
 * environment, command line. */
static kvs_status choose_task(kvsi_train_settings *s, kvsi_parsed_options *parsed, kvs_err *err)
{
    const size_t task = index_of_option("task"), data = index_of_option("data");

    if (!s->data || !kvsi_option_is_given(parsed, task))
        return KVS_OK;
    if (parsed->source[task] > parsed->source[data]) {
        s->data = NULL;
        parsed->source[data] = KVSI_FROM_DEFAULT;
    } else if (parsed->source[task] < parsed->source[data] || repeats_default(s, parsed, task)) {
        s->task = task_names[0];
        parsed->source[task] = KVSI_FROM_DEFAULT;
    } else {
        return kvsi_fail(err, KVS_E_INVALID, "options '--task' and '--data' exclude each other");
    }
    return KVS_OK;
}

/* The task whose own options are in that group; NULL = it is no such group. */
static const char *task_of_group(const char *group)
{
    return group == INDUCTION ? "induction"
           : group == NGRAM   ? "ngram"
           : group == HOPK    ? "hopk"
           : group == IGSM    ? "igsm"
                              : NULL;
}

/* An option of another task would go unheard. */
static kvs_status check_task(const kvsi_train_settings *s, const kvsi_parsed_options *parsed,
                             kvs_err *err)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        const char *task = task_of_group(options[i].group);

        if (task && !kvsi_train_is_task(s, task) && kvsi_option_is_given(parsed, i) &&
            !repeats_default(s, parsed, i))
            return kvsi_fail(err, KVS_E_INVALID, "option '--%s' is for task %s", options[i].name,
                             task);
    }
    return KVS_OK;
}

int kvsi_train_names_task(const kvsi_train_settings *s, const kvsi_parsed_options *parsed)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        const char *group = options[i].group;

        if ((group == TASK || task_of_group(group)) && kvsi_option_is_given(parsed, i) &&
            !repeats_default(s, parsed, i))
            return 1;
    }
    return 0;
}

/* ---- presets --------------------------------------------------------------------------------- */

/* The options as a preset has them, which is shifted like any new model, or the model options of a
 * file. */
static kvs_status start_from(kvsi_train_settings *s, const char *name, kvs_err *err)
{
    const kvs_shift_config shift = s->model.shift;
    kvs_model_config config;

    if (strchr(name, '/') || strstr(name, ".json")) {
        TRY(kvs_model_config_load(&config, name, err));
    } else {
        TRY(kvs_model_config_preset(&config, name, err));
        TRY(kvs_train_config_preset(&s->train, name, err));
        s->schedule = kvs_schedule_name(s->train.schedule);
        config.shift = shift;
    }
    kvsi_train_settings_from_model(s, &config);
    return KVS_OK;
}

/* A preset's batch is computed in parts that a machine holds; another batch in parts no larger. */
static void keep_parts(kvsi_train_settings *s, kvsi_parsed_options *parsed,
                       const kvs_train_config *preset)
{
    const size_t index = index_of_option("accumulate");
    const size_t part = preset->batch / preset->accumulate;

    if (parsed->source[index] != KVSI_FROM_PRESET || s->train.batch == preset->batch)
        return;
    s->train.accumulate = (s->train.batch + part - 1) / part;
    while (s->train.batch % s->train.accumulate != 0)
        s->train.accumulate++;
    parsed->source[index] = KVSI_FROM_OTHERS;
}

/* Reads the options a second time, over the defaults of the body and the preset that the first
 * time brought: these stand behind the other options, wherever they were said. */
static kvs_status parse_again(kvsi_train_settings *s, kvsi_parsed_options *parsed, kvs_body body,
                              int argc, char **argv, kvs_err *err)
{
    const char *const start = s->preset;
    kvsi_train_settings plain, started;

    kvsi_train_set_defaults(s, body);
    plain = *s;
    if (start)
        TRY(start_from(s, start, err));
    started = *s;
    kvsi_options_release(parsed);
    TRY(kvsi_options_parse(parsed, &kvsi_train_command, s, argc, argv, err));
    parsed->preset = s->preset;
    TRY(kvsi_options_mark_changes(parsed, &kvsi_train_command, &plain, &started, KVSI_FROM_PRESET,
                                  err));
    keep_parts(s, parsed, &started.train);
    return KVS_OK;
}

kvs_status kvsi_train_settings_parse(kvsi_train_settings *s, kvsi_parsed_options *parsed, int argc,
                                     char **argv, kvs_err *err)
{
    kvs_body body = KVS_BODY_LLAMA;

    kvsi_train_set_defaults(s, body);
    TRY(kvsi_options_parse(parsed, &kvsi_train_command, s, argc, argv, err));
    if (parsed->help)
        return KVS_OK;
    TRY(kvs_body_parse(&body, s->body, err));
    TRY(parse_again(s, parsed, body, argc, argv, err));
    if (s->resume && s->out) {
        TRY(choose_task(s, parsed, err));
        TRY(settle(s, parsed, err)); /* so that names compare as the run has them */
        TRY(kvsi_train_take_run(s, parsed, err));
    }
    TRY(choose_task(s, parsed, err));
    TRY(check_task(s, parsed, err));
    return settle(s, parsed, err);
}

/* ---- a loaded model -------------------------------------------------------------------------- */

static kvs_status check_option(const kvsi_option *option, const kvsi_train_settings *given,
                               const kvsi_train_settings *loaded, kvs_err *err)
{
    kvsi_text ours = {0}, theirs = {0};
    kvs_status st;

    kvsi_option_print(&ours, option, given);
    kvsi_option_print(&theirs, option, loaded);
    TRY_OUT(kvsi_text_check(&ours, err));
    TRY_OUT(kvsi_text_check(&theirs, err));
    if (strcmp(ours.data, theirs.data) != 0 && !(option->automatic && strcmp(ours.data, "0") == 0))
        st = kvsi_fail(err, KVS_E_INVALID, "option '--%s' is %s, but the model in '%s' has %s",
                       option->name, ours.data, given->init_from,
                       *theirs.data ? theirs.data : "none");
out:
    kvsi_text_release(&ours);
    kvsi_text_release(&theirs);
    return st;
}

kvs_status kvsi_train_check_agreement(const kvsi_train_settings *s,
                                      const kvsi_parsed_options *parsed,
                                      const kvs_model_config *loaded, kvs_err *err)
{
    kvsi_train_settings other = *s;

    kvsi_train_settings_from_model(&other, loaded);
    for (size_t i = 0; i < OPTIONS; i++)
        if (kvsi_is_model_option(options + i) && kvsi_option_is_given(parsed, i))
            TRY(check_option(options + i, s, &other, err));
    return KVS_OK;
}

/* ---- where values came from ------------------------------------------------------------------ */

static void mark_model(const kvsi_train_settings *s, kvsi_parsed_options *parsed)
{
    parsed->model = s->init_from;
    for (size_t i = 0; s->init_from && i < OPTIONS; i++)
        if (kvsi_is_model_option(options + i))
            parsed->source[i] = KVSI_FROM_MODEL;
}

/* The model of s->init_from as training will start with it. */
static kvs_status look_at_model(kvsi_train_settings *s, const kvsi_parsed_options *parsed,
                                kvs_err *err)
{
    kvs_model_config config;

    TRY(kvs_model_config_load(&config, s->init_from, err));
    TRY(kvsi_train_check_agreement(s, parsed, &config, err));
    if (s->retrofit) {
        config.shift = (kvs_shift_config){
            .form = KVS_SHIFT_FREE, .init = KVS_SHIFT_INIT_IDENTITY, .window = 1};
        TRY(kvs_shift_targets_parse(&config.shift.targets, s->retrofit, err));
    }
    kvsi_train_settings_from_model(s, &config);
    return KVS_OK;
}

kvs_status kvsi_train_look_ahead(kvsi_train_settings *s, kvsi_parsed_options *parsed, kvs_err *err)
{
    const int brings_vocab = !kvsi_train_is_task(s, "induction");

    if (s->init_from)
        TRY(look_at_model(s, parsed, err));
    if (brings_vocab && !kvsi_train_is_given(parsed, "vocab"))
        parsed->source[index_of_option("vocab")] = KVSI_FROM_START;
    if (s->data && !kvsi_train_is_given(parsed, "eval-sequences"))
        parsed->source[index_of_option("eval-sequences")] = KVSI_FROM_START;
    if (!kvsi_train_is_given(parsed, "eval-every"))
        parsed->source[index_of_option("eval-every")] = KVSI_FROM_START;
    mark_model(s, parsed);
    return KVS_OK;
}

kvs_status kvsi_train_mark_sources(const kvsi_train_settings *s, const kvsi_train_settings *before,
                                   kvsi_parsed_options *parsed, kvs_err *err)
{
    const kvs_status st =
        kvsi_options_mark_changes(parsed, &kvsi_train_command, before, s, KVSI_FROM_OTHERS, err);

    mark_model(s, parsed);
    return st;
}

/* ---- the model options of another command ---------------------------------------------------- */

size_t kvsi_model_option_count(void)
{
    size_t count = 1; /* the preset */

    while (kvsi_is_model_option(options + count))
        count++;
    return count;
}

/* What the body and the preset are, whatever else is said; `argv` is left as it is. */
static kvs_status find_start(kvsi_train_settings *s, kvsi_parsed_options *parsed,
                             const kvsi_command_options *command, int argc, char **argv,
                             kvs_err *err)
{
    char **words = kvsi_alloc((size_t)argc, sizeof *words);
    kvs_status st;

    if (!words)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the command line");
    for (int i = 0; i < argc; i++)
        words[i] = argv[i];
    st = kvsi_options_parse(parsed, command, s, argc, words, err);
    kvsi_free(words);
    return st;
}

kvs_status kvsi_model_settings_parse(kvsi_train_settings *s, kvsi_parsed_options *parsed,
                                     const kvsi_command_options *command, int argc, char **argv,
                                     kvs_err *err)
{
    const size_t count = kvsi_model_option_count();
    kvsi_parsed_options ours = {0}; /* the same options in the table of this file */
    kvs_body body = KVS_BODY_LLAMA;
    const char *start;

    kvsi_train_set_defaults(s, body);
    TRY(find_start(s, parsed, command, argc, argv, err));
    if (parsed->help)
        return KVS_OK;
    TRY(kvs_body_parse(&body, s->body, err));
    start = s->preset;
    kvsi_train_set_defaults(s, body);
    if (start)
        TRY(start_from(s, start, err));
    TRY(kvsi_options_parse(parsed, command, s, argc, argv, err));
    memcpy(ours.source, parsed->source, count * sizeof *ours.source);
    return settle(s, &ours, err);
}
