/* repro/registered.h - claims that were planned before their runs, in a file that is committed then:
 *
 *     {"rules": ["...", ...],
 *      "claims": [{"experiment": "windows", "scale": "night", "claim": "...", "holds_if": "...",
 *                  "margin": 0.02, "seeds": 5}, ...]}
 *
 * `claim` is the claim's text in results.json.  A planned claim counts once at least as many seeds
 * are done. */
#ifndef KVSI_REPRO_REGISTERED_H
#define KVSI_REPRO_REGISTERED_H

#include "repro/collection.h"

/* *out: a new reference. */
kvs_status kvsi_registered_read(json_t **out, const char *path, kvs_err *err);
/* Whether the claim was planned; without a plan, NULL, every claim counts as planned. */
int kvsi_is_registered(const json_t *plan, const kvsi_saved *saved, const kvs_claim *claim);
/* Adds a list of the planned claims without a result, or with fewer seeds than planned. */
void kvsi_registered_missing(kvsi_page *page, const json_t *plan, const kvsi_collection *c);

#endif
