/* golden.h - reading the golden files that goldens/make_goldens.py describes. */
#ifndef KVSI_TESTS_GOLDEN_H
#define KVSI_TESTS_GOLDEN_H

#include "formats/safetensors.h"
#include "support.h"

typedef struct golden {
    const char *name;
    kvs_model_config config;
    kvsi_safetensors *body, *file;
    kvs_batch batch; /* `starts` is owned, the rest is a view into the file */
    double loss;     /* sum over the rows with a target */
} golden;

extern const char *const golden_names[]; /* ends with NULL */

void golden_open(golden *g, const char *name);
void golden_close(golden *g);

/* With the golden weights. */
kvs_model *golden_model(const golden *g, kvs_runtime *rt);

/* Compares logits, loss and every gradient with the golden ones. */
void golden_expect(const golden *g, const kvs_model *model, double loss_limit,
                   double gradient_limit, double logit_limit);

#endif
