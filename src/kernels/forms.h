/* kernels/forms.h - the forms of the shift: how a head's parameters become taps.
 *
 * Kernels only see taps: taps[j * head_size + i] multiplies channel i of the token window-j back
 * (oldest first).  A new form is one row of the table in forms.c.
 *
 * `data` is the exception: it has one coefficient per token and head, which kernels take from the
 * gates that the model computes (kvsi_shift); its row has no taps. */
#ifndef KVSI_KERNELS_FORMS_H
#define KVSI_KERNELS_FORMS_H

#include "base/random.h"
#include "kernels/backend.h"

enum { KVSI_TAPS_MAX = KVSI_SHIFT_WINDOW_MAX + 1 };

typedef struct kvsi_form {
    size_t window_max;
    int can_be_identity;
    /* Number of parameters per head; 0 = the form learns no taps. */
    size_t (*params)(size_t window, size_t head_size);
    void (*taps)(real *taps, const real *params, size_t window, size_t head_size);
    /* Chain rule: d_params (overwritten) from d_taps.  Double, because callers sum over
     * sequences. */
    void (*backward)(double *d_params, const double *d_taps, const real *params, size_t window,
                     size_t head_size);
    /* The inverse of `taps`, for initial values; NULL = the form has no parameters. */
    void (*from_taps)(double *params, const double *taps, size_t window);
    int per_channel; /* params are [head_size, window + 1]; from_taps makes one row */
    int gated;       /* one coefficient per token instead of taps: kvsi_shift.gates */
} kvsi_form;

const kvsi_form *kvsi_form_get(kvsi_shift_form form); /* NULL past the end of the table */

/* Draws window + 1 initial taps, oldest first. */
void kvsi_taps_draw(double *taps, size_t window, kvsi_shift_init init, kvsi_random *random);

#endif
