/* The settings of training: of the optimizer and of a run. */
#include "config/rows.h"

const char kvsi_group_training[] = "Training", kvsi_group_ranks[] = "Ranks",
           kvsi_group_run[] = "Run";

#define TRAINING kvsi_group_training
#define RANKS kvsi_group_ranks
#define RUN kvsi_group_run
#define FIELD(member) offsetof(kvs_train_config, member)

/* clang-format off */
static const kvsi_setting train_rows[] = {
    {COUNT("steps", steps, TRAINING, "optimizer steps"), .low = 1, .value = "1000",
     .use = KVSI_RESULT | KVSI_MAY_CHANGE},
    {SIZE("batch", batch, TRAINING, "sequences per step"), .low = 1, .value = "128",
     .use = KVSI_RESULT},
    {SIZE("accumulate", accumulate, TRAINING,
          "micro-batches that a batch is computed in; must divide it"),
     .low = 1, .value = "1", .use = KVSI_LOGGED},
    {COUNT("warmup", warmup, TRAINING, "steps over which the learning rate rises"), .value = "50",
     .use = KVSI_RESULT},
    {ENUM("schedule", schedule, TRAINING, "learning-rate schedule after the warm-up",
          kvsi_schedule_names),
     .value = "constant", .use = KVSI_RESULT},
    {REAL("lr", lr, TRAINING, "learning rate"), .high = 1e3, .open_high = 1, .value = "1e-3",
     .use = KVSI_RESULT},
    {REAL("lr-floor", lr_floor, TRAINING, "learning rate at the last step, as a fraction of --lr"),
     .high = 1, .value = "0.1", .use = KVSI_RESULT},
    {REAL("beta1", beta1, TRAINING, "AdamW: decay of the mean gradient"), .high = 1,
     .open_high = 1, .value = "0.9", .use = KVSI_RESULT},
    {REAL("beta2", beta2, TRAINING, "AdamW: decay of the mean squared gradient"), .high = 1,
     .open_high = 1, .value = "0.95", .use = KVSI_RESULT},
    {REAL("eps", eps, TRAINING, "AdamW: epsilon"), .open_low = 1, .high = 1, .open_high = 1,
     .value = "1e-8", .use = KVSI_RESULT | KVSI_ADDED},
    {REAL("weight-decay", weight_decay, TRAINING, "AdamW: weight decay"), .high = 1e3,
     .open_high = 1, .value = "0.1", .use = KVSI_RESULT},
    {REAL("shift-lr", shift_lr, TRAINING,
          "learning rate of the shift's parameters, on the same schedule"),
     .high = 1e3, .open_high = 1, .automatic = "as --lr", .use = KVSI_RESULT | KVSI_ADDED},
    {REAL("shift-decay", shift_decay, TRAINING, "weight decay of the shift's parameters"),
     .high = 1e3, .open_high = 1, .use = KVSI_RESULT},
    {FLAG("decay-all", decay_all, TRAINING,
          "--weight-decay for every tensor: gains and biases too, and the shift unless it has its "
          "own"),
     .use = KVSI_RESULT},
    {FLAG("only-shift", only_shift, TRAINING, "train the shift's parameters and nothing else"),
     .use = KVSI_RESULT | KVSI_ADDED},
    {ROW("rates", KVSI_SETTING_STRING, rates, TRAINING, "TEXT",
         "NAME=X,...: multiply the learning rate of tensors by X; 0 freezes them; NAME is a "
         "tensor's name, the end of one, or a pattern such as 'layers.0.*'"),
     .automatic = "none", .use = KVSI_RESULT | KVSI_ADDED},
    {FLAG("eval-dropout", eval_dropout, TRAINING, "keep dropout on in evaluations"),
     .use = KVSI_RESULT | KVSI_ADDED},
    {REAL("clip", clip, TRAINING, "largest gradient norm, 0 = no clipping"), .high = 1e30,
     .open_high = 1, .value = "1", .use = KVSI_RESULT},
    {FLAG("recompute", recompute, TRAINING,
          "compute layers again in the backward pass: less memory, more time"),
     .use = KVSI_MAY_CHANGE},
    {ENUM("precision", precision, TRAINING,
          "precision of matrix products; bf16 rounds their operands and sums in f32",
          kvsi_precision_names),
     .value = "f32", .use = KVSI_RESULT | KVSI_ADDED},
    {ENUM("pack-weights", pack_weights, TRAINING,
          "keep packed copies of the weights for all passes of a step: more memory, less time; "
          "auto = for several short passes, without --recompute",
          kvsi_pack_weights_names),
     .value = "auto", .use = KVSI_MAY_CHANGE},

    {ENUM("shard", shard, RANKS,
          "what is divided among the ranks besides the work; each includes those before it",
          kvsi_shard_names),
     .value = "none", .use = KVSI_MAY_CHANGE},
    {FLAG("deterministic", deterministic, RANKS,
          "the same bits on 1, 2 and 4 ranks; 4 must divide --batch"),
     .use = KVSI_MAY_CHANGE},

    {COUNT("seed", seed, RUN, "seed of the initial weights and of the order of the data"),
     .high = 999999999999999, .value = "1", /* exact as a JSON number in any reader */
     .use = KVSI_RESULT},

    {COUNT("eval-every", eval_every, TRAINING,
           "steps between evaluations; 0 = only at the end, but --data is evaluated 10 to 20 times "
           "unless this is given"),
     .use = KVSI_LOGGED | KVSI_MAY_CHANGE},
    {SIZE("eval-sequences", eval_sequences, TRAINING, "fresh sequences per evaluation"), .low = 1,
     .value = "4096", .use = KVSI_LOGGED | KVSI_MAY_CHANGE},
    {COUNT("patience", patience, TRAINING,
           "end the run after this many evaluations without a lower loss"),
     .automatic = "no limit", .use = KVSI_MAY_CHANGE},
    {FLAG("save-best", save_best, RUN,
          "the final model has the weights of the lowest evaluation loss, not the last ones"),
     .use = KVSI_MAY_CHANGE},
    {COUNT("checkpoint-every", checkpoint_every, RUN,
           "steps between checkpoints in the run folder, 0 = none"),
     .use = KVSI_MAY_CHANGE},
    {SIZE("keep", keep, RUN, "newest checkpoints to keep, 0 = all"), .value = "3",
     .use = KVSI_MAY_CHANGE},
    {COUNT("sample-every", sample_every, "Samples",
           "steps between texts generated by the model, with --data; 0 = none"),
     .use = KVSI_MAY_CHANGE},
    {COUNT("eval-tasks-every", eval_tasks_every, "Benchmarks",
           "steps between evaluations on benchmarks, with --data; 0 = none"),
     .use = KVSI_MAY_CHANGE},
};
/* clang-format on */

const kvsi_settings kvsi_train_settings = TABLE("training", train_rows);

void kvsi_train_config_init(kvs_train_config *config)
{
    kvsi_settings_init(&kvsi_train_settings, config, sizeof *config);
}

int kvsi_train_settings_add_missing(json_t *object)
{
    json_t *const added = json_object();
    kvs_train_config config;
    int failed;

    kvsi_train_config_init(&config);
    failed = kvsi_settings_to_json(added, &kvsi_train_settings, &config, KVSI_ADDED) ||
             json_object_update_missing(object, added);
    json_decref(added);
    return failed;
}

kvs_status kvs_train_config_check(const kvs_train_config *config, kvs_err *err)
{
    NEED(config);
    TRY(kvsi_settings_check(&kvsi_train_settings, config, err));
    if (config->batch % config->accumulate != 0)
        return kvsi_fail(err, KVS_E_INVALID, "accumulate is %zu, expected a divisor of batch %zu",
                         config->accumulate, config->batch);
    if (config->pack_weights == KVSI_PACK_YES && config->shard == KVSI_SHARD_PARAMETERS)
        return kvsi_fail(err, KVS_E_INVALID,
                         "pack-weights is 'yes', expected 'auto' or 'no' with shard 'parameters'");
    return KVS_OK;
}
