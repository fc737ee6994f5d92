/* Appendix, last paragraph: shifting keys and values, or rows elsewhere in a layer. */
#include "config/config.h"
#include "repro/scales.h"
#include "repro/text_arms.h"

enum { VANILLA, KV, KV_CHANNEL, BEFORE_NORM, AFTER_NORM, BEFORE_ADD, AFTER_ADD, CANON, ARMS };

enum { BOTH = KVS_SHIFT_K | KVS_SHIFT_V };

/* All arms start as vanilla attention, and their shifts have the same rate, so that neither the init
 * nor the number of taps decides: a site may have taps per channel, as filters have. */
#define RATE .shift_lr = 2e-2
#define FILTER(where) .filters = "branches", .place = (where), RATE

static const kvsi_text_arm arms[ARMS] = {
    [VANILLA] = {.name = "vanilla"},
    [KV] = {.name = "keys and values",
            .shift = {.targets = BOTH, .init = KVSI_SHIFT_INIT_IDENTITY},
            RATE},
    [KV_CHANNEL] = {.name = "keys and values, per channel",
                    .shift = {.targets = BOTH,
                              .form = KVSI_SHIFT_RESIDUAL,
                              .init = KVSI_SHIFT_INIT_IDENTITY},
                    RATE},
    [BEFORE_NORM] = {.name = "before the norms", FILTER("input")},
    [AFTER_NORM] = {.name = "after the norms", FILTER("normed")},
    [BEFORE_ADD] = {.name = "before the additions", FILTER("output")},
    [AFTER_ADD] = {.name = "after the additions", FILTER("sum")},
    [CANON] = {.name = "keys, values and after the norms, window 3",
               .shift = {.targets = BOTH,
                         .form = KVSI_SHIFT_RESIDUAL,
                         .init = KVSI_SHIFT_INIT_IDENTITY,
                         .window = 3},
               .filter_window = 3,
               FILTER("normed")},
};

static const kvsi_loss_claim claims[] = {
    {BEFORE_NORM, KV, KVSI_NOT_LOWER, "before the norms is no better than keys and values",
     "keys and values are the most suitable"},
    {AFTER_NORM, KV, KVSI_NOT_LOWER, "after the norms is no better than keys and values",
     "keys and values are the most suitable"},
    {BEFORE_ADD, KV, KVSI_NOT_LOWER, "before the additions is no better than keys and values",
     "keys and values are the most suitable"},
    {AFTER_ADD, KV, KVSI_NOT_LOWER, "after the additions is no better than keys and values",
     "keys and values are the most suitable"},
};

static const kvsi_text_comparison comparison = {
    KVSI_TEXT_ARMS(arms),
    KVSI_LOSS_CLAIMS(claims),
    .size = KVSI_TEXT_SMALL,
    .night_size = KVSI_TEXT_SMALL,
    .preset = "paper-1.5b",
    .remark = "Every arm starts as vanilla attention, and the shift's numbers have a rate of 2e-2. "
              "Elsewhere than in keys and values there is one tap per channel, in attention and "
              "MLP alike. Filters before the additions are those of Inkling; keys and values "
              "together with filters after the norms are the Canon layers A, B and C.",
};

const kvsi_experiment kvsi_repro_sites = {
    .about =
        {
            .name = "sites",
            .figure = "App. QKV",
            .claim =
                "Keys and values are the best place for a shift: before or after the norm, and "
                "before or after the residual addition, it is worse.",
            .settings =
                {KVSI_SMOKE_TEXT,
                 "0.3 million parameters instead of 1.5 billion, 3.3 million tokens instead of 10 "
                 "billion, vocabulary 1024, windows of 256 tokens, cosine rate from 2e-3; the "
                 "paper "
                 "only argues, and has no experiment",
                 "the paper's 1.5B model, batch, rate and 10 billion tokens; the paper only "
                 "argues, "
                 "and has no experiment",
                 "0.5 million parameters, 20 million tokens of prose and encyclopaedia (0.2 "
                 "epochs), vocabulary 1024, windows of 256 tokens, cosine rate from 2e-3; the "
                 "paper only argues, and has no experiment"},
            .seeds = {1, 3, 1, 5},
            .learns_text = 1,
        },
    .text = &comparison,
};
