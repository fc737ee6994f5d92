/* The settings of the synthetic tasks. */
#include "config/rows.h"

const char kvsi_group_induction[] = "Task induction", kvsi_group_ngram[] = "Task ngram",
           kvsi_group_hopk[] = "Task hopk", kvsi_group_igsm[] = "Task igsm";

/* clang-format off */

#define GROUP kvsi_group_induction
#define FIELD(member) offsetof(kvsi_induction_config, member)
static const kvsi_setting induction_rows[] = {
    {SIZE("pool", pool, GROUP, "tokens that a sequence draws from; fewer make it shorter"),
     .low = 2, .value = "128", .use = KVSI_RESULT},
    {SIZE("max-length", max_length, GROUP, "longest sequence in tokens"), .low = 4, .value = "512",
     .use = KVSI_RESULT},
    {ENUM("loss", loss, GROUP, "tokens that have a loss", kvsi_loss_names), .value = "answer",
     .use = KVSI_RESULT},
    {ENUM("sampler", sampler, GROUP, "how sequences are drawn; both have the same distribution",
          kvsi_sampler_names),
     .value = "direct", .use = KVSI_RESULT},
};
#undef GROUP
#undef FIELD

#define GROUP kvsi_group_ngram
#define FIELD(member) offsetof(kvsi_ngram_config, member)
static const kvsi_setting ngram_rows[] = {
    {SIZE("alphabet", alphabet, GROUP, "tokens that pairs are made of"), .low = 1,
     .high = 1 << 13, .value = "30",
     .use = KVSI_RESULT},
    {SIZE("pairs", pairs, GROUP, "pairs to memorise, all different"), .low = 1,
     .high = 1 << 20, .value = "200",
     .use = KVSI_RESULT},
    {SIZE("answers", answers, GROUP, "tokens that answers are drawn from"), .low = 1,
     .high = 1 << 20,     .value = "1000", .use = KVSI_RESULT},
};
#undef GROUP
#undef FIELD

#define GROUP kvsi_group_hopk
#define FIELD(member) offsetof(kvsi_hopk_config, member)
static const kvsi_setting hopk_rows[] = {
    {SIZE("letters", letters, GROUP, "number of different letters"), .low = 2, .high = 64,
     .value = "4", .use = KVSI_RESULT},
    {SIZE("string", length, GROUP, "letters per sequence"), .low = 1, .high = 65536, .value = "98",
     .use = KVSI_RESULT, .key = "length"},
    {SIZE("hops", hops, GROUP, "largest number of hops; each sequence has its own number"),
     .high = 4096, .value = "16", .use = KVSI_RESULT},
    {ROW("only-hops", KVSI_SETTING_OPTIONAL, only, GROUP, "N", "number of hops of all sequences"),
     .automatic = "0 to --hops", .use = KVSI_RESULT, .key = "only"},
    {COUNT("train-sequences", sequences, GROUP,
           "size of the training set, which is repeated; 0 = always new sequences"),
     .use = KVSI_RESULT, .key = "sequences"},
};
#undef GROUP
#undef FIELD

#define GROUP kvsi_group_igsm
#define FIELD(member) offsetof(kvsi_igsm_config, member)
static const kvsi_setting igsm_rows[] = {
    {ENUM("mode", mode, GROUP,
          "which generator: the one that the paper starts from, or the official one",
          kvsi_igsm_mode_names),
     .value = "paper", .use = KVSI_RESULT},
    {ENUM("wording", wording, GROUP, "whole sentences, or only the words that carry meaning",
          kvsi_igsm_wording_names),
     .value = "full", .use = KVSI_RESULT},
    {SIZE("min-op", min_op, GROUP, "fewest operations per problem"), .low = 1, .value = "1",
     .use = KVSI_RESULT},
    {SIZE("max-op", max_op, GROUP, "most operations per problem"), .low = 1, .value = "12",
     .use = KVSI_RESULT},
    {SIZE("items", items, GROUP, "mode paper: most items per category"), .low = 1, .high = 10,
     .value = "3", .use = KVSI_RESULT},
    {SIZE("edges", edges, GROUP, "mode official: most pairs of things"),
     .low = 12, .high = 48, .value = "20", /* four layers of four need 12 */
     .use = KVSI_RESULT},
    {SIZE("problem-length", max_length, GROUP, "longest problem with its solution, in tokens"),
     .low = 64, .high = 16384, .value = "1024", .use = KVSI_RESULT, .key = "max_length"},
    {FLAG("solution-only", solution_only, GROUP, "loss on solutions only, not on problems"),
     .use = KVSI_RESULT},
};

/* clang-format on */

const kvsi_settings kvsi_induction_settings = TABLE("induction", induction_rows);
const kvsi_settings kvsi_ngram_settings = TABLE("ngram", ngram_rows);
const kvsi_settings kvsi_hopk_settings = TABLE("hopk", hopk_rows);
const kvsi_settings kvsi_igsm_settings = TABLE("igsm", igsm_rows);

/* vocab and seed have no row: the model's vocabulary and the training's seed are used. */
void kvsi_induction_config_init(kvsi_induction_config *config)
{
    kvsi_settings_init(&kvsi_induction_settings, config, sizeof *config);
    config->vocab = 1000;
}

void kvsi_ngram_config_init(kvsi_ngram_config *config)
{
    kvsi_settings_init(&kvsi_ngram_settings, config, sizeof *config);
    config->seed = 1;
}

void kvsi_hopk_config_init(kvsi_hopk_config *config)
{
    kvsi_settings_init(&kvsi_hopk_settings, config, sizeof *config);
}

void kvsi_igsm_config_init(kvsi_igsm_config *config)
{
    kvsi_settings_init(&kvsi_igsm_settings, config, sizeof *config);
}
