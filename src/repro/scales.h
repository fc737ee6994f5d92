/* repro/scales.h - settings that several experiments share, for each scale. */
#ifndef KVSI_REPRO_SCALES_H
#define KVSI_REPRO_SCALES_H

#include "repro/experiment.h"

/* The induction task and its training; the experiment sets layers, width and shift. */
void kvsi_scale_induction(kvsi_planned *run, kvs_scale scale);

/* A language model with its text, tokenizer and training; the experiment sets the shift.  At scale
 * paper it is the preset, otherwise size `number` of KVSI_TEXT_SIZES, from the narrowest. */
enum { KVSI_TEXT_SIZES = 5, KVSI_TEXT_SMALL = 2, KVSI_TEXT_BASE = 3 };

kvs_status kvsi_scale_text(kvsi_planned *run, kvsi_plan *plan, size_t number, const char *preset,
                           kvs_err *err);

/* What this means at scale smoke, for kvs_experiment.settings. */
#define KVSI_SMOKE_TEXT                                                                            \
    "a tiny model, 8 steps on a made-up language: shows that everything works and nothing else"

/* Names an arm. */
void kvsi_name_arm(kvsi_planned *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Sets the shift and the number of layers, and names the arm "KV shifting, 2 layers" or "vanilla, 1
 * layer". */
void kvsi_shift_arm(kvsi_planned *run, int shifted, size_t layers);

#endif
