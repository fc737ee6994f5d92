/* kernels/forms.h - the forms of the shift: how a head's learned numbers become its taps.
 *
 * A new form is one row of the table in forms.c.  Kernels see taps only. */
#ifndef KVSI_KERNELS_FORMS_H
#define KVSI_KERNELS_FORMS_H

#include "base/random.h"
#include "kernels/backend.h"

enum { KVSI_TAPS_MAX = KVS_SHIFT_WINDOW_MAX + 1 };

typedef struct kvsi_form {
    const char *name;
    size_t window_max;
    size_t (*numbers)(size_t window); /* learned numbers a head */
    /* One head.  Taps are oldest first, window + 1 of them. */
    void (*taps)(real *taps, const real *numbers, size_t window);
    /* Adds to d_numbers what d_taps says. */
    void (*backward)(real *d_numbers, const double *d_taps, const real *numbers, size_t window);
    /* Turns initial taps into the numbers that give them. */
    void (*from_taps)(double *numbers, const double *taps, size_t window);
} kvsi_form;

const kvsi_form *kvsi_form_get(kvs_shift_form form); /* NULL past the end of the table */

/* The paper's init: every tap but the oldest ~ U(0,1), the oldest = 1 - their sum. */
void kvsi_taps_uniform(double *taps, size_t window, kvsi_random *random);

#endif
