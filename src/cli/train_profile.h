/* cli/train_profile.h - how long steps took, what ranks waited for, and the memory it took. */
#ifndef KVSI_CLI_TRAIN_PROFILE_H
#define KVSI_CLI_TRAIN_PROFILE_H

#include "base/json.h"

typedef struct kvsi_train_profile {
    uint64_t steps;
    double seconds, sending, waiting; /* sums */
    double planned;                   /* bytes of memory */
} kvsi_train_profile;

/* The first steps do not count: they warm up. */
void kvsi_train_profile_add(kvsi_train_profile *profile, const kvs_step_record *record);
void kvsi_train_profile_print(const kvsi_train_profile *profile);
json_t *kvsi_train_profile_json(const kvsi_train_profile *profile); /* a new reference */

#endif
