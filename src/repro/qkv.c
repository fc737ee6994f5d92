/* Appendix: shifting queries as well. */
#include "repro/scales.h"
#include "repro/text_arms.h"

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

static const kvsi_text_comparison comparison = {
    KVSI_TEXT_ARMS(arms),
    KVSI_LOSS_CLAIMS(claims),
    .size = KVSI_TEXT_BASE,
    .preset = "paper-19b",
};

const kvsi_experiment kvsi_repro_qkv = {
    .about =
        {
            .name = "qkv",
            .figure = "App. QKV",
            .claim = "Shifting queries too makes nothing better.",
            .settings =
                {KVSI_SMOKE_TEXT,
                 "0.5 million parameters instead of 19 billion, 3.3 million tokens instead of 180 "
                 "billion, vocabulary 1024, windows of 256 tokens, cosine rate from 2e-3; losses "
                 "alone, since models of this size have nothing to show on benchmarks",
                 "the paper's 19B model, batch and rate, 200 billion tokens; the text is not the "
                 "paper's, which is not public"},
            .seeds = {1, 5, 1},
            .learns_text = 1,
        },
    .text = &comparison,
};
