/* cli/sampling_options.h - the options of commands that sample tokens. */
#ifndef KVSI_CLI_SAMPLING_OPTIONS_H
#define KVSI_CLI_SAMPLING_OPTIONS_H

#include "cli/options/options.h"

/* The rows of those options, for a command whose settings have a kvs_sampling `sampling`. */
/* clang-format off */
#define KVSI_SAMPLING_ROWS(settings)                                                               \
    {.name = "temp", .kind = KVSI_SETTING_REAL, .offset = offsetof(settings, sampling.temperature),\
     .group = "Sampling", .placeholder = "X",                                                      \
     .help = "temperature; 0 = always the most likely token"},                                     \
    {.name = "top-k", .kind = KVSI_SETTING_SIZE, .offset = offsetof(settings, sampling.top_k),     \
     .group = "Sampling", .placeholder = "N", .help = "sample from the N most likely tokens",      \
     .automatic = "all"},                                                                          \
    {.name = "top-p", .kind = KVSI_SETTING_REAL, .offset = offsetof(settings, sampling.top_p),     \
     .group = "Sampling", .placeholder = "X",                                                      \
     .help = "of these, the most likely ones whose probabilities add up to X", .high = 1},         \
    {.name = "min-p", .kind = KVSI_SETTING_REAL, .offset = offsetof(settings, sampling.min_p),     \
     .group = "Sampling", .placeholder = "X",                                                      \
     .help = "of these, the ones at least X times as likely as the most likely", .high = 1},       \
    {.name = "repeat-penalty", .kind = KVSI_SETTING_REAL,                                          \
     .offset = offsetof(settings, sampling.repeat_penalty),                                        \
     .group = "Sampling", .placeholder = "X",                                                      \
     .help = "make earlier tokens less likely: divide their positive logits by X, multiply "       \
             "negative ones"},                                                                     \
    {.name = "repeat-last", .kind = KVSI_SETTING_SIZE,                                             \
     .offset = offsetof(settings, sampling.repeat_last),                                           \
     .group = "Sampling", .placeholder = "N",                                                      \
     .help = "number of earlier tokens that --repeat-penalty applies to; 0 = all"},                \
    {.name = "seed", .kind = KVSI_SETTING_UINT64, .offset = offsetof(settings, sampling.seed),     \
     .group = "Sampling", .placeholder = "N", .help = "seed of random choices; the same "          \
     "seed gives the same text", .high = 999999999999999}
/* clang-format on */

#endif
