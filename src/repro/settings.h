/* repro/settings.h - what several experiments have in common at each scale. */
#ifndef KVSI_REPRO_SETTINGS_H
#define KVSI_REPRO_SETTINGS_H

#include "repro/experiment.h"

/* The induction task with everything but layers, width and shift: those are the experiment's. */
void kvsi_settings_induction(kvsi_planned *run, kvs_scale scale);

/* Names an arm. */
void kvsi_name_arm(kvsi_planned *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "KV shifting, 2 layers" or "vanilla, 1 layer", and the shift that goes with it. */
void kvsi_shift_arm(kvsi_planned *run, int shifted, size_t layers);

#endif
