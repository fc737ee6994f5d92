/* train/rates.h - factors of the learning rate by the names of tensors: the setting "rates".
 *
 *     embed_tokens=0,layers.0.*=0.1
 *
 * An entry names a tensor, or the end of its name after a dot, with or without ".weight"; * and ?
 * are wildcards.  The first entry that fits a tensor counts.  A tensor with the factor 0 is frozen:
 * neither its gradient nor its weight decay changes it, and its gradient is not part of the
 * norm. */
#ifndef KVSI_TRAIN_RATES_H
#define KVSI_TRAIN_RATES_H

#include "config/config.h"
#include "model/parameters.h"

/* Parameters from offset `from` on that have one factor. */
typedef struct kvsi_rate {
    size_t from, count;
    double factor;
} kvsi_rate;

typedef struct kvsi_rates {
    size_t count;    /* 0 = every factor is 1 */
    kvsi_rate *list; /* in the order of the layout, without gaps */
} kvsi_rates;

/* Fails if an entry fits no tensor, or if nothing from `trained_from` on would be trained. */
kvs_status kvsi_rates_init(kvsi_rates *rates, const char *text, const kvsi_layout *layout,
                           size_t trained_from, kvs_err *err);
void kvsi_rates_release(kvsi_rates *rates);

/* The factor of the parameter at `offset`.  Reduces *count to the parameters from there on that
 * have the same factor. */
double kvsi_rates_at(const kvsi_rates *rates, size_t offset, size_t *count);

#endif
