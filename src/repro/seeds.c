/* Fig. 5a: vanilla and KV shifting with several seeds. */
#include "repro/curves.h"
#include "repro/scales.h"
#include "repro/text_arms.h"

#include <math.h>

enum { VANILLA, KV, ARMS };

static const kvsi_text_arm arms[ARMS] = {
    [VANILLA] = {.name = "vanilla"},
    [KV] = {.name = "KV shifting", .shift = {.targets = KVS_SHIFT_K | KVS_SHIFT_V}},
};

static const kvsi_text_comparison comparison = {
    KVSI_TEXT_ARMS(arms),
    .size = KVSI_TEXT_BASE,
    .preset = "paper-1.5b",
};

static kvs_status conclude(kvsi_claims *out, const kvsi_results *results, kvs_err *err)
{
    const kvsi_paired_test test = kvsi_compare_losses(results, KV, VANILLA);
    const size_t seeds = test.difference.count;

    (void)err;
    kvsi_claims_add(out,
                    &(kvsi_claim){.claim = "KV shifting has the lower loss for every seed",
                                  .paper = "5 of 5 seeds",
                                  .ours = (double)test.below,
                                  .error = NAN,
                                  .unit = "seeds",
                                  .seeds = seeds,
                                  .outcome = test.below == seeds ? KVSI_HOLDS : KVSI_FAILS},
                    "of %zu", seeds);
    kvsi_claim_loss(out, results,
                    &(kvsi_loss_claim){.arm = KV,
                                       .reference = VANILLA,
                                       .expects = KVSI_LOWER,
                                       .claim = "and the mean difference is no chance",
                                       .paper = "always better"});
    kvsi_draw_losses(out, results, VANILLA, ARMS, "losses",
                     "Strong lines: loss on the validation text, mean over the seeds with its "
                     "standard error; thin ones: single seeds; pale ones: on the training text. "
                     "Below: the difference within each seed.");
    return kvsi_claims_check(out);
}

const kvsi_experiment kvsi_repro_seeds = {
    .about =
        {
            .name = "seeds",
            .figure = "Fig. 5a",
            .claim = "With five seeds for weights and data, KV shifting always has the lower loss.",
            .settings =
                {KVSI_SMOKE_TEXT,
                 "0.5 million parameters instead of 1.5 billion, 3.3 million tokens instead of 10 "
                 "billion, vocabulary 1024, windows of 256 tokens, cosine rate from 2e-3; eight "
                 "seeds instead of five; validation loss instead of training loss",
                 "the paper's 1.5B model, batch, rate and 10 billion tokens; the text is not the "
                 "paper's, which is not public"},
            .seeds = {2, 8, 5},
            .learns_text = 1,
        },
    .text = &comparison,
    .conclude = conclude,
};
