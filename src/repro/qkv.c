/* The appendix's figure: shifting queries too. */
#include "repro/losses.h"
#include "repro/scales.h"

enum { VANILLA, KV, QKV, ARMS };

static const kvsi_text_arm arms[ARMS] = {
    [VANILLA] = {.name = "vanilla"},
    [KV] = {.name = "KV shifting", .shift = {.targets = KVS_SHIFT_K | KVS_SHIFT_V}},
    [QKV] = {.name = "QKV shifting", .shift = {.targets = KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V}},
};

static const kvsi_loss_claim claims[] = {
    {QKV, KV, KVSI_NOT_LOWER, "shifting queries too is no better than keys and values",
     "losses are similar, benchmarks worse"},
};

static kvs_status plan(kvsi_plan *p, kvs_err *err)
{
    return kvsi_plan_text_arms(p, arms, ARMS, KVSI_TEXT_BASE, "paper-19b", err);
}

static kvs_status conclude(kvsi_claims *out, const kvsi_results *results, kvs_err *err)
{
    (void)err;
    return kvsi_conclude_text_arms(out, results, claims, sizeof claims / sizeof *claims, VANILLA);
}

const kvsi_experiment kvsi_repro_qkv = {
    .about =
        {
            .name = "qkv",
            .figure = "App. QKV",
            .claim = "Shifting queries too makes nothing better.",
            .settings =
                {"a tiny model, 8 steps on a made-up language: shows that everything works and "
                 "nothing else",
                 "0.5 million parameters instead of 19 billion, 3.3 million tokens instead of 180 "
                 "billion, vocabulary 1024, windows of 256 tokens, cosine rate from 2e-3; losses "
                 "alone, since models of this size have nothing to show on benchmarks",
                 "the paper's 19B model, batch and rate, 200 billion tokens; the text is not the "
                 "paper's, which is not public"},
            .seeds = {1, 5, 1},
            .learns_text = 1,
        },
    .plan = plan,
    .conclude = conclude,
};
