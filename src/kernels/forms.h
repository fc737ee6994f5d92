/* kernels/forms.h - the forms of the shift: how a head's parameters become its taps.
 *
 * Kernels see taps only: one per channel and token back, taps[j * head_size + i] for channel i of
 * the token window-j back (oldest first).  A new form is one row of the table in forms.c.
 *
 * `data` is the exception: it has one number per token, not per channel; kernels take it from the
 * gates that the model computes (kvsi_shift), and its row has no taps. */
#ifndef KVSI_KERNELS_FORMS_H
#define KVSI_KERNELS_FORMS_H

#include "base/random.h"
#include "kernels/backend.h"

enum { KVSI_TAPS_MAX = KVS_SHIFT_WINDOW_MAX + 1 };

typedef struct kvsi_form {
    const char *name;
    size_t window_max;
    int can_be_identity;
    /* Parameters of one head, which are those of its taps (0 = none are learned). */
    size_t (*params)(size_t window, size_t head_size);
    void (*taps)(real *taps, const real *params, size_t window, size_t head_size);
    /* d_params = what d_taps says (overwritten; double, because sums follow). */
    void (*backward)(double *d_params, const double *d_taps, const real *params, size_t window,
                     size_t head_size);
    /* Turns a set of initial taps into the values that give them; NULL = there are none. */
    void (*from_taps)(double *params, const double *taps, size_t window);
    int per_channel; /* values are [head_size, window + 1]: from_taps makes them row by row */
    int gated;       /* a number per token instead of taps: the shift's `gates` */
} kvsi_form;

const kvsi_form *kvsi_form_get(kvs_shift_form form); /* NULL past the end of the table */

/* One set of initial taps, window + 1 of them, oldest first. */
void kvsi_taps_draw(double *taps, size_t window, kvs_shift_init init, kvsi_random *random);

#endif
