#include "serve/lens_routes.h"

#include "base/memory.h"
#include "serve/request.h"

#include <stdlib.h>
#include <string.h>

/* Every request of the page.  "model" is the name of a model, by default the first. */
static const kvsi_lens_route routes[] = {
    /* The models: layers, heads, taps; limits of requests. */
    {"/lens/model", (const char *const[]){NULL}, kvsi_lens_reply_model},
    /* The taps of the model's checkpoints, in the order of their steps. */
    {"/lens/checkpoints", (const char *const[]){"model", NULL}, kvsi_lens_reply_checkpoints},
    /* Ids and texts of the tokens of a text, of messages or of ids. */
    {"/lens/tokens", (const char *const[]){"model", "text", "messages", "ids", NULL},
     kvsi_lens_reply_tokens},
    /* Log-probabilities and alternatives of each token, also under other taps. */
    {"/lens/run", (const char *const[]){"model", "ids", "edits", "top", NULL}, kvsi_lens_reply_run},
    /* The ids of a random sequence that is repeated once. */
    {"/lens/repeated", (const char *const[]){"model", "length", "seed", NULL},
     kvsi_lens_reply_repeated},
    /* Induction, duplicate and previous-token scores of all heads. */
    {"/lens/scores", (const char *const[]){"model", "ids", NULL}, kvsi_lens_reply_scores},
    /* A and A_V of one head: two squares of float32, little-endian. */
    {"/lens/attention", (const char *const[]){"model", "ids", "layer", "head", NULL},
     kvsi_lens_reply_attention},
    /* Names of the runs, and their files from an offset on. */
    {"/lens/runs", (const char *const[]){NULL}, kvsi_lens_reply_runs},
    {"/lens/log", (const char *const[]){"run", "file", "offset", NULL}, kvsi_lens_reply_log},
};

const kvsi_lens_route *kvsi_lens_route_of(const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (strcmp(routes[i].path, path) == 0)
            return routes + i;
    return NULL;
}

static int is_known(const kvsi_lens_route *route, const char *field)
{
    for (const char *const *known = route->fields; *known; known++)
        if (strcmp(*known, field) == 0)
            return 1;
    return 0;
}

kvs_status kvsi_lens_reply(kvsi_lens_answer *out, const kvsi_lens_route *route,
                           const kvsi_lens_call *call, const char *body, size_t size, kvs_err *err)
{
    kvsi_lens_call parsed = *call;
    kvsi_refusal refusal;
    const char *field;
    json_t *value;
    kvs_status st = KVS_OK;

    if (kvsi_request_check_shape(body, size, &refusal) != KVS_OK)
        return kvsi_fail(err, KVS_E_LIMIT, "%s", refusal.message);
    if (size > 0)
        TRY(kvsi_json_parse(&parsed.body, body, size, "the request", err));
    json_object_foreach(parsed.body, field, value) {
        if (!is_known(route, field)) {
            st = kvsi_fail(err, KVS_E_INVALID, "field '%.64s' is not known to '%s'", field,
                           route->path);
            goto out;
        }
    }
    TRY_OUT(route->reply(out, &parsed, err));
    TRY_OUT(kvsi_text_check(&out->body, err));
out:
    json_decref(parsed.body);
    if (st != KVS_OK)
        kvsi_text_release(&out->body);
    return st;
}

kvs_status kvsi_lens_check_wanted(const kvsi_lens_call *call, kvs_err *err)
{
    if (call->is_gone && call->is_gone(call->user))
        return kvsi_fail(err, KVS_E_STOPPED, "the client is gone");
    return KVS_OK;
}

kvs_status kvsi_lens_get_model(const kvsi_lens_model **out, const kvsi_lens_call *call,
                               kvs_err *err)
{
    const char *name = NULL;

    TRY(kvsi_json_get_text(&name, call->body, "model", "the request", err));
    for (size_t i = 0; i < call->options->model_count; i++) {
        *out = call->options->models + i;
        if (!name || strcmp((*out)->name, name) == 0)
            return KVS_OK;
    }
    return kvsi_fail(err, KVS_E_INVALID, "model '%.64s' is not on this server", name ? name : "");
}

kvs_status kvsi_lens_get_count(size_t *out, const kvsi_lens_call *call, const char *key,
                               size_t most, kvs_err *err)
{
    size_t value = *out;

    TRY(kvsi_json_get_size(&value, call->body, key, "the request", err));
    if (value > most)
        return kvsi_fail(err, KVS_E_INVALID, "field '%s' is %zu, expected at most %zu", key, value,
                         most);
    *out = value;
    return KVS_OK;
}

kvs_status kvsi_lens_get_ids(int32_t **ids, size_t *count, const kvsi_lens_call *call,
                             const kvs_model *model, size_t most, kvs_err *err)
{
    const kvs_model_config *config = kvs_model_get_config(model);
    const double vocab = kvs_model_config_number(config, "vocab");
    const double context = kvs_model_config_number(config, "context");
    const json_t *list = json_object_get(call->body, "ids"), *value;
    const size_t found = json_array_size(list);
    size_t i;

    if ((double)most > context)
        most = (size_t)context;
    if (!json_is_array(list))
        return kvsi_fail(err, KVS_E_INVALID, "field 'ids' must be a list of tokens");
    if (found == 0 || found > most)
        return kvsi_fail(err, KVS_E_LIMIT, "field 'ids' has %zu tokens, expected 1 to %zu", found,
                         most);
    *ids = kvsi_alloc(found, sizeof **ids);
    if (!*ids)
        return kvsi_no_memory(err, "%zu tokens", found);
    json_array_foreach(list, i, value) {
        const json_int_t id = json_integer_value(value);

        if (!json_is_integer(value) || id < 0 || (double)id >= vocab) {
            kvsi_free(*ids);
            *ids = NULL;
            return kvsi_fail(err, KVS_E_INVALID, "field 'ids': element %zu must be from 0 to %.0f",
                             i, vocab - 1);
        }
        (*ids)[i] = (int32_t)id;
    }
    *count = found;
    return KVS_OK;
}

kvs_status kvsi_lens_answer_json(kvsi_lens_answer *out, json_t *value, kvs_err *err)
{
    char *text = NULL;
    const kvs_status st = kvsi_json_dump(&text, value, JSON_COMPACT, "the answer", err);

    json_decref(value);
    if (st != KVS_OK)
        return st;
    out->type = "application/json";
    kvsi_text_add(&out->body, text);
    free(text);
    return KVS_OK;
}
