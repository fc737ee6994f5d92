/* serve/lens_routes.h - the requests of the page, without the thread that computes the answers. */
#ifndef KVSI_SERVE_LENS_ROUTES_H
#define KVSI_SERVE_LENS_ROUTES_H

#include "base/json.h"
#include "base/text.h"
#include "serve/lens.h"

/* One request. */
typedef struct kvsi_lens_call {
    const kvsi_lens_options *options;
    json_t *body;               /* an object with known fields only; NULL = empty */
    int (*is_gone)(void *user); /* whether the answer is not wanted any more */
    void *user;
} kvsi_lens_call;

typedef struct kvsi_lens_answer {
    const char *type; /* of the content */
    kvsi_text body;
} kvsi_lens_answer;

typedef struct kvsi_lens_route {
    const char *path;
    const char *const *fields; /* of the body, ended by NULL */
    kvs_status (*reply)(kvsi_lens_answer *out, const kvsi_lens_call *call, kvs_err *err);
} kvsi_lens_route;

/* NULL = there is no such request. */
const kvsi_lens_route *kvsi_lens_route_of(const char *path);
/* Parses the body and computes the answer.  Errors of the client have the status KVS_E_INVALID,
 * KVS_E_FORMAT, KVS_E_LIMIT or KVS_E_UNSUPPORTED; KVS_E_STOPPED means that nobody waits. */
kvs_status kvsi_lens_reply(kvsi_lens_answer *out, const kvsi_lens_route *route,
                           const kvsi_lens_call *call, const char *body, size_t size, kvs_err *err);

/* ---- for the routes ---- */

/* Fails with KVS_E_STOPPED if nobody waits. */
kvs_status kvsi_lens_check_wanted(const kvsi_lens_call *call, kvs_err *err);
/* The model that the field "model" names, by default the first. */
kvs_status kvsi_lens_get_model(const kvsi_lens_model **out, const kvsi_lens_call *call,
                               kvs_err *err);
/* A whole number from 0 to `most`; unchanged if it is missing. */
kvs_status kvsi_lens_get_count(size_t *out, const kvsi_lens_call *call, const char *key,
                               size_t most, kvs_err *err);
/* The field "ids": 1 to `most` tokens of the model, no more than its context.  The caller frees
 * *ids with kvsi_free. */
kvs_status kvsi_lens_get_ids(int32_t **ids, size_t *count, const kvsi_lens_call *call,
                             const kvs_model *model, size_t most, kvs_err *err);
/* Writes a value, which it releases, as the answer. */
kvs_status kvsi_lens_answer_json(kvsi_lens_answer *out, json_t *value, kvs_err *err);

kvs_status kvsi_lens_reply_model(kvsi_lens_answer *, const kvsi_lens_call *, kvs_err *);
kvs_status kvsi_lens_reply_checkpoints(kvsi_lens_answer *, const kvsi_lens_call *, kvs_err *);
kvs_status kvsi_lens_reply_tokens(kvsi_lens_answer *, const kvsi_lens_call *, kvs_err *);
kvs_status kvsi_lens_reply_run(kvsi_lens_answer *, const kvsi_lens_call *, kvs_err *);
kvs_status kvsi_lens_reply_repeated(kvsi_lens_answer *, const kvsi_lens_call *, kvs_err *);
kvs_status kvsi_lens_reply_scores(kvsi_lens_answer *, const kvsi_lens_call *, kvs_err *);
kvs_status kvsi_lens_reply_attention(kvsi_lens_answer *, const kvsi_lens_call *, kvs_err *);
kvs_status kvsi_lens_reply_runs(kvsi_lens_answer *, const kvsi_lens_call *, kvs_err *);
kvs_status kvsi_lens_reply_log(kvsi_lens_answer *, const kvsi_lens_call *, kvs_err *);

#endif
