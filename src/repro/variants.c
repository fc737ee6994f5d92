/* Fig. 8a: bounded shift coefficients, and shifts used by others. */
#include "config/config.h"
#include "repro/scales.h"
#include "repro/text_arms.h"

enum { VANILLA, KV, GATE, CLAMP, SMEAR, HARD, CHANNEL, DATA, ARMS };

enum { BOTH = KVS_SHIFT_K | KVS_SHIFT_V };

static const kvsi_text_arm arms[ARMS] = {
    [VANILLA] = {.name = "vanilla"},
    [KV] = {.name = "KV shifting", .shift = {.targets = BOTH}},
    [GATE] = {.name = "gate", .shift = {.targets = BOTH, .form = KVSI_SHIFT_GATE}},
    [CLAMP] = {.name = "0 to 1", .shift = {.targets = BOTH, .form = KVSI_SHIFT_CLAMP}},
    [SMEAR] = {.name = "smeared keys", .shift = {.targets = KVS_SHIFT_K, .form = KVSI_SHIFT_GATE}},
    [HARD] = {.name = "half of each key shifted",
              .shift = {.targets = KVS_SHIFT_K, .form = KVSI_SHIFT_HARD},
              .half_rotary = 1},
    [CHANNEL] = {.name = "taps per channel",
                 .shift = {.targets = BOTH, .form = KVSI_SHIFT_CHANNEL}},
    [DATA] = {.name = "gate from the data", .shift = {.targets = BOTH, .form = KVSI_SHIFT_DATA}},
};

static const kvsi_loss_claim claims[] = {
    {KV, VANILLA, KVSI_LOWER, "KV shifting has a lower loss than vanilla", "lower"},
    {GATE, KV, KVSI_NOT_LOWER, "a gate, which keeps the sum at 1, is no better than free numbers",
     "no better"},
    {CLAMP, KV, KVSI_NOT_LOWER, "numbers kept within 0 and 1 are no better than free ones",
     "no better"},
};

static const kvsi_text_comparison comparison = {
    KVSI_TEXT_ARMS(arms),
    KVSI_LOSS_CLAIMS(claims),
    .size = KVSI_TEXT_SMALL,
    .preset = "paper-1.5b",
    .remark = "Smeared keys (a gated shift of keys alone), keys of which the half "
              "without rotation is the previous token's, taps per channel and gates "
              "computed from the data are not in the paper: others use them.",
};

const kvsi_experiment kvsi_repro_variants = {
    .about =
        {
            .name = "variants",
            .figure = "Fig. 8a",
            .claim = "Bounding the shift's numbers, by a gate or to [0, 1], makes nothing better.",
            .settings =
                {KVSI_SMOKE_TEXT,
                 "0.3 million parameters instead of 1.5 billion, 3.3 million tokens instead of 10 "
                 "billion, vocabulary 1024, windows of 256 tokens, cosine rate from 2e-3; four "
                 "more variants than the paper's",
                 "the paper's 1.5B model, batch, rate and 10 billion tokens, with four more "
                 "variants; the text is not the paper's, which is not public"},
            .seeds = {1, 3, 1},
            .learns_text = 1,
        },
    .text = &comparison,
};
