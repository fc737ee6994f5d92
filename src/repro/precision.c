/* Whether the precision of products decides a verdict: the lead of KV shifting in f32 and in bf16. */
#include "config/config.h"
#include "repro/curves.h"
#include "repro/scales.h"
#include "repro/text_arms.h"

#include <math.h>

enum { VANILLA, KV, VANILLA_BF16, KV_BF16, ARMS };

static const double MARGIN = 0.02; /* nats, the margin of other claims */

static const kvsi_text_arm arms[ARMS] = {
    [VANILLA] = {.name = "vanilla"},
    [KV] = {.name = "KV shifting", .shift = {.targets = KVS_SHIFT_K | KVS_SHIFT_V}},
    [VANILLA_BF16] = {.name = "vanilla, bf16", .precision = KVSI_PRECISION_BF16},
    [KV_BF16] = {.name = "KV shifting, bf16",
                 .shift = {.targets = KVS_SHIFT_K | KVS_SHIFT_V},
                 .precision = KVSI_PRECISION_BF16},
};

static const kvsi_text_comparison comparison = {
    KVSI_TEXT_ARMS(arms),
    .size = KVSI_TEXT_SMALL,
    .preset = "paper-1.5b",
};

static void leads(double out[KVSI_SEEDS_MAX], const kvsi_results *results, size_t kv,
                  size_t vanilla)
{
    const kvsi_arm_result ours = kvsi_results_arm(results, kv),
                          theirs = kvsi_results_arm(results, vanilla);

    for (size_t i = 0; i < ours.count && i < KVSI_SEEDS_MAX; i++)
        out[i] = kvsi_final_loss(ours.runs + i) - kvsi_final_loss(theirs.runs + i);
}

static kvs_status conclude(kvsi_claims *out, const kvsi_results *results, kvs_err *err)
{
    double f32[KVSI_SEEDS_MAX] = {0}, bf16[KVSI_SEEDS_MAX] = {0};
    kvsi_paired_test test;
    kvsi_claim claim;
    double half, mean;

    (void)err;
    leads(f32, results, KV, VANILLA);
    leads(bf16, results, KV_BF16, VANILLA_BF16);
    test = kvsi_paired_t(bf16, f32, results->plan->seeds);
    half = kvsi_half_interval(&test.difference);
    mean = test.difference.mean;
    claim =
        kvsi_claim_of_test(&test, "KV shifting has the same lead over vanilla in bf16 as in f32",
                           "not said", "nats a token",
                           fabs(mean) + half < MARGIN                    ? KVSI_HOLDS
                           : test.p < 0.05 && fabs(mean) - half > MARGIN ? KVSI_FAILS
                                                                         : KVSI_OPEN);
    kvsi_claims_add_test(out, &claim, "holds if the 95 %% interval (± %.3f) is within ±%.2f", half,
                         MARGIN);
    kvsi_conclude_text_arms(out, results, &comparison);
    return kvsi_claims_check(out);
}

const kvsi_experiment kvsi_repro_precision = {
    .about =
        {
            .name = "precision",
            .figure = "not in the paper",
            .claim = "Products in bf16 instead of f32 change no verdict.",
            .settings =
                {KVSI_SMOKE_TEXT,
                 "0.3 million parameters, 3.3 million tokens, vocabulary 1024, windows of 256 "
                 "tokens, cosine rate from 2e-3",
                 "the paper's 1.5B model, batch, rate and 10 billion tokens",
                 "1.1 million parameters (preset desk-1m), 20 million tokens of prose and "
                 "encyclopaedia (0.2 epochs), vocabulary 1024, windows of 256 tokens, cosine rate "
                 "from 2e-3"},
            .seeds = {1, 3, 1, 5},
            .learns_text = 1,
        },
    .text = &comparison,
    .conclude = conclude,
};
