/* repro/scales.h - what several experiments have in common at each scale. */
#ifndef KVSI_REPRO_SCALES_H
#define KVSI_REPRO_SCALES_H

#include "repro/experiment.h"

/* The induction task with everything but layers, width and shift: those are the experiment's. */
void kvsi_scale_induction(kvsi_planned *run, kvs_scale scale);

/* A language model: of the smaller scales the one of that number, the narrowest being 0; of the
 * paper the preset.  Text, tokenizer and training are set too; the shift is the experiment's. */
enum { KVSI_TEXT_SIZES = 5, KVSI_TEXT_SMALL = 2, KVSI_TEXT_BASE = 3 };

kvs_status kvsi_scale_text(kvsi_planned *run, kvsi_plan *plan, size_t number, const char *preset,
                           kvs_err *err);

/* What this means at scale smoke, for kvs_experiment.settings. */
#define KVSI_SMOKE_TEXT                                                                            \
    "a tiny model, 8 steps on a made-up language: shows that everything works and nothing else"

/* Names an arm. */
void kvsi_name_arm(kvsi_planned *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "KV shifting, 2 layers" or "vanilla, 1 layer", and the shift that goes with it. */
void kvsi_shift_arm(kvsi_planned *run, int shifted, size_t layers);

#endif
