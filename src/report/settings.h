/* report/settings.h - the settings of a run as one flat list, and what sets runs apart.
 *
 * A list is a JSON object from names to words, ordered by what is worth saying first:
 *
 *     {"shift": "kv", "body": "llama", "layers": "4", ..., "data valid tokens": "275881",
 *      "steps": "600", ..., "lr": "0.002", ...}
 *
 * It has everything that can change the result except the seed; so runs with equal lists are
 * repetitions of one experiment. */
#ifndef KVSI_REPORT_SETTINGS_H
#define KVSI_REPORT_SETTINGS_H

#include "base/json.h"
#include "base/text.h"
#include "config/config.h"

/* Describes a shift by its targets and by what differs from the defaults: "none", "kv", "k gate",
 * "kv window 2 init softmax". */
void kvsi_describe_shift(char *out, size_t size, const kvsi_shift_config *shift);

/* Makes the list from the first line of a run's log.  A new reference; NULL = out of memory. */
json_t *kvsi_settings_list(const json_t *line, const kvs_model_config *model,
                           uint64_t planned_steps);

/* Returns the words for a name; NULL if the list does not have it. */
const char *kvsi_run_setting(const json_t *list, const char *name);
int kvsi_settings_differ(const json_t *a, const json_t *b, const char *name);
/* Returns the first setting in which the data of two runs differ, or how much of it is evaluated.
 * If there is one, their losses cannot be compared.  NULL if there is none. */
const char *kvsi_settings_other_data(const json_t *a, const json_t *b);

/* "shift kv, layers 2": the fewest words, from the front of the lists, that set list `which` apart
 * from all that are not equal to it.  The shift alone if there are no others. */
void kvsi_settings_label(kvsi_text *out, const json_t *const *lists, size_t count, size_t which);

#endif
