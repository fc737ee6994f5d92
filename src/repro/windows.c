/* Fig. 8c: shift windows of more than one token. */
#include "config/config.h"
#include "repro/scales.h"
#include "repro/text_arms.h"

enum { VANILLA, W1, W2, W3, W2_SOFTMAX, W3_SOFTMAX, ARMS };

enum { BOTH = KVS_SHIFT_K | KVS_SHIFT_V };

static const kvsi_text_arm arms[ARMS] = {
    [VANILLA] = {.name = "vanilla"},
    [W1] = {.name = "window 1", .shift = {.targets = BOTH, .window = 1}},
    [W2] = {.name = "window 2", .shift = {.targets = BOTH, .window = 2}},
    [W3] = {.name = "window 3", .shift = {.targets = BOTH, .window = 3}},
    [W2_SOFTMAX] = {.name = "window 2, init softmax",
                    .shift = {.targets = BOTH, .window = 2, .init = KVSI_SHIFT_INIT_SOFTMAX}},
    [W3_SOFTMAX] = {.name = "window 3, init softmax",
                    .shift = {.targets = BOTH, .window = 3, .init = KVSI_SHIFT_INIT_SOFTMAX}},
};

static const kvsi_loss_claim claims[] = {
    {W2, W1, KVSI_NOT_LOWER, "two tokens back are no better than one", "no improvement"},
    {W3, W1, KVSI_NOT_LOWER, "three tokens back are no better than one", "no improvement"},
    {W2_SOFTMAX, W1, KVSI_NOT_LOWER, "nor are two that start from a softmax", "not tried"},
    {W3_SOFTMAX, W1, KVSI_NOT_LOWER, "nor are three that start from a softmax", "not tried"},
};

static const kvsi_text_comparison comparison = {
    KVSI_TEXT_ARMS(arms),
    KVSI_LOSS_CLAIMS(claims),
    .size = KVSI_TEXT_SMALL,
    .preset = "paper-1.5b",
    .remark = "With the paper's init the oldest of three numbers begins below 0 half "
              "of the time, and the oldest of four five times out of six; a softmax "
              "of normal numbers keeps all of them above 0.",
};

const kvsi_experiment kvsi_repro_windows = {
    .about =
        {
            .name = "windows",
            .figure = "Fig. 8c",
            .claim = "Shifting by two or three tokens is no better than by one.",
            .settings =
                {KVSI_SMOKE_TEXT,
                 "0.3 million parameters instead of 1.5 billion, 3.3 million tokens instead of 10 "
                 "billion, vocabulary 1024, windows of 256 tokens, cosine rate from 2e-3; with "
                 "another init beside the paper's",
                 "the paper's 1.5B model, batch, rate and 10 billion tokens, with another init "
                 "beside the paper's; the text is not the paper's, which is not public"},
            .seeds = {1, 3, 1},
            .learns_text = 1,
        },
    .text = &comparison,
};
