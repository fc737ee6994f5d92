/* /lens/model and /lens/checkpoints: the shape of models, and the taps of their heads. */
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "kvshift/kvshift_lab.h"
#include "serve/lens_routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAPS_MAX = 64, WORD_MAX = 64 };

static const struct {
    char letter;
    unsigned flag;
} targets[] = {{'k', KVS_SHIFT_K}, {'v', KVS_SHIFT_V}, {'q', KVS_SHIFT_Q}};

static size_t count_of(const kvs_model_config *config, const char *name)
{
    return (size_t)kvs_model_config_number(config, name);
}

static void word_of(char out[WORD_MAX], const kvs_model_config *config, const char *name)
{
    out[0] = '\0';
    kvs_model_config_get(out, WORD_MAX, config, name, NULL);
}

static size_t head_count(const kvs_model_config *config, unsigned target, size_t layer)
{
    return target == KVS_SHIFT_Q ? kvs_model_config_heads(config, layer)
                                 : kvs_model_config_kv_heads(config, layer);
}

/* The taps of a head, oldest first; of form data, which has none, the length of its gate. */
static kvs_status add_head(json_t *list, const kvs_model *model, size_t window, int has_gates,
                           size_t layer, unsigned target, size_t head, kvs_err *err)
{
    double taps[TAPS_MAX], length;

    if (has_gates) {
        TRY(kvs_model_gate_length(&length, model, layer, target, head, err));
        json_array_append_new(list, kvsi_json_number(length));
        return KVS_OK;
    }
    TRY(kvs_model_taps(taps, NULL, model, layer, target, head, err));
    json_array_append_new(list, kvsi_json_numbers(taps, window + 1));
    return KVS_OK;
}

static kvs_status add_target(json_t *shift, const kvs_model *model, size_t target, int has_gates,
                             kvs_err *err)
{
    const kvs_model_config *config = kvs_model_get_config(model);
    const size_t layers = count_of(config, "layers"), window = count_of(config, "shift-window");
    const char name[] = {targets[target].letter, '\0'};
    json_t *all = json_array();

    json_object_set_new(shift, name, all);
    for (size_t layer = 0; layer < layers; layer++) {
        const size_t heads = head_count(config, targets[target].flag, layer);
        json_t *list = json_array();

        json_array_append_new(all, list);
        for (size_t head = 0; head < heads; head++)
            TRY(add_head(list, model, window, has_gates, layer, targets[target].flag, head, err));
    }
    return KVS_OK;
}

static const char *const kind_names[] = {
    [KVS_KEYS_CURRENT_VALUES_CURRENT] = "current_current",
    [KVS_KEYS_PREVIOUS_VALUES_CURRENT] = "previous_current",
    [KVS_KEYS_CURRENT_VALUES_PREVIOUS] = "current_previous",
    [KVS_KEYS_PREVIOUS_VALUES_PREVIOUS] = "previous_previous",
};

static kvs_status add_kinds(json_t *shift, const kvs_model *model, kvs_err *err)
{
    const kvs_model_config *config = kvs_model_get_config(model);
    const size_t layers = count_of(config, "layers");
    json_t *all = json_array();

    json_object_set_new(shift, "kinds", all);
    for (size_t layer = 0; layer < layers; layer++) {
        json_t *list = json_array();

        json_array_append_new(all, list);
        for (size_t head = 0; head < kvs_model_config_kv_heads(config, layer); head++) {
            kvs_coefficients c;

            TRY(kvs_head_coefficients(&c, model, layer, head, err));
            json_array_append_new(list, json_string(kind_names[kvs_head_kind_of(&c)]));
        }
    }
    return KVS_OK;
}

/* A model's shift: {"form", "window", "gates", "k": [layer][head][taps], "v", "q", "kinds"}. */
static kvs_status describe_shift(json_t **out, const kvs_model *model, kvs_err *err)
{
    const kvs_model_config *config = kvs_model_get_config(model);
    const size_t window = count_of(config, "shift-window");
    char shifted[WORD_MAX], form[WORD_MAX];
    int has_gates;

    word_of(shifted, config, "shift"); /* "none", or letters: "qkv" */
    word_of(form, config, "shift-form");
    has_gates = strcmp(form, "data") == 0;
    *out = json_object();
    if (strcmp(shifted, "none") == 0)
        return KVS_OK;
    if (window >= TAPS_MAX)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "the shift has %zu taps, expected at most %d",
                         window + 1, (int)TAPS_MAX);
    json_object_set_new(*out, "form", json_string(form));
    json_object_set_new(*out, "window", json_integer((json_int_t)window));
    json_object_set_new(*out, "gates", json_boolean(has_gates));
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strchr(shifted, targets[i].letter))
            TRY(add_target(*out, model, i, has_gates, err));
    return kvs_shift_has_kinds(config) ? add_kinds(*out, model, err) : KVS_OK;
}

static kvs_status describe(json_t **out, const kvsi_lens_model *m, kvs_err *err)
{
    const kvs_model_config *config = kvs_model_get_config(m->model);
    const size_t layers = count_of(config, "layers");
    json_t *list = json_array(), *shift = NULL;
    char hash[32];
    kvs_status st;

    for (size_t l = 0; l < layers; l++)
        json_array_append_new(
            list, json_pack("{s:I, s:I}", "heads", (json_int_t)kvs_model_config_heads(config, l),
                            "kv_heads", (json_int_t)kvs_model_config_kv_heads(config, l)));
    st = describe_shift(&shift, m->model, err);
    if (st != KVS_OK) {
        json_decref(list);
        json_decref(shift);
        return st;
    }
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)kvs_tokenizer_hash(m->tokenizer));
    *out = json_pack("{s:o, s:I, s:I, s:I, s:o, s:o, s:s, s:b, s:s}", "name",
                     kvsi_json_text(m->name, strlen(m->name)), "context",
                     (json_int_t)count_of(config, "context"), "vocab",
                     (json_int_t)count_of(config, "vocab"), "parameters",
                     (json_int_t)kvs_model_parameters(m->model), "layers", list, "shift", shift,
                     "tokenizer", hash, "chat", m->chat != NULL, "stop",
                     m->chat ? kvs_chat_template_stop(m->chat) : "");
    return KVS_OK;
}

kvs_status kvsi_lens_reply_model(kvsi_lens_answer *out, const kvsi_lens_call *call, kvs_err *err)
{
    json_t *models = json_array();

    for (size_t i = 0; i < call->options->model_count; i++) {
        json_t *one = NULL;
        const kvs_status st = describe(&one, call->options->models + i, err);

        if (st != KVS_OK) {
            json_decref(models);
            return st;
        }
        json_array_append_new(models, one);
    }
    return kvsi_lens_answer_json(
        out,
        json_pack("{s:o, s:b, s:{s:i, s:i, s:i}}", "models", models, "runs",
                  call->options->runs != NULL, "limits", "tokens", (int)KVSI_LENS_TOKENS_MAX,
                  "square", (int)KVSI_LENS_SQUARE_MAX, "top", (int)KVSI_LENS_TOP_MAX),
        err);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* The folder of a model's checkpoints, which kvsi_free() frees: ckpt in a run folder, or the one
 * that a checkpoint is in.  NULL = there is none. */
static char *checkpoints_of(const char *model)
{
    char *below = kvsi_path_join(model, "ckpt"), *parent = kvsi_path_parent(model);

    if (below && kvsi_is_folder(below)) {
        kvsi_free(parent);
        return below;
    }
    kvsi_free(below);
    if (parent && kvsi_ends_with(parent, "/ckpt"))
        return parent;
    kvsi_free(parent);
    return NULL;
}

/* Opens one checkpoint, of which only headers and taps are read. */
static kvs_status add_checkpoint(json_t *list, kvs_runtime *rt, const char *dir, const char *name,
                                 kvs_err *err)
{
    char *path = kvsi_path_join(dir, name), *done = path ? kvsi_path_join(path, "DONE") : NULL;
    kvs_load_options options;
    kvs_model *model = NULL;
    json_t *shift = NULL;
    kvs_status st = KVS_OK;

    if (!done) {
        st = kvsi_no_memory(err, "the path of a checkpoint");
        goto out;
    }
    kvs_load_options_init(&options, sizeof options);
    options.mapped = 1;
    /* A running training removes old checkpoints, so one may be gone or incomplete. */
    if (kvsi_file_exists(done) && kvs_model_load(&model, rt, path, &options, NULL) == KVS_OK) {
        TRY_OUT(describe_shift(&shift, model, err));
        json_array_append_new(list, json_pack("{s:I, s:O}", "step",
                                              (json_int_t)strtoll(name + strlen("step-"), NULL, 10),
                                              "shift", shift));
    }
out:
    json_decref(shift);
    kvs_model_free(model);
    kvsi_free(done);
    kvsi_free(path);
    return st;
}

static kvs_status add_checkpoints(json_t *list, const char *dir, const kvsi_lens_call *call,
                                  kvs_err *err)
{
    kvs_runtime_options options;
    kvs_runtime *rt = NULL;
    kvsi_name_list names = {0};
    size_t shown;
    kvs_status st;

    kvs_runtime_options_init(&options, sizeof options);
    options.threads = 1;
    TRY(kvsi_dir_list(&names, dir, "step-", err));
    TRY_OUT(kvs_runtime_create(&rt, &options, err));
    shown = names.count < KVSI_LENS_CHECKPOINTS_MAX ? names.count : KVSI_LENS_CHECKPOINTS_MAX;
    for (size_t i = 0; i < shown; i++) { /* the last one is always among them */
        const size_t at = (i + 1) * names.count / shown - 1;

        TRY_OUT(kvsi_lens_check_wanted(call, err));
        TRY_OUT(add_checkpoint(list, rt, dir, names.names[at], err));
    }
out:
    kvs_runtime_free(rt);
    kvsi_name_list_release(&names);
    return st;
}

kvs_status kvsi_lens_reply_checkpoints(kvsi_lens_answer *out, const kvsi_lens_call *call,
                                       kvs_err *err)
{
    const kvsi_lens_model *m;
    json_t *list;
    char *dir;
    kvs_status st = KVS_OK;

    TRY(kvsi_lens_get_model(&m, call, err));
    list = json_array();
    dir = checkpoints_of(m->path);
    if (dir)
        st = add_checkpoints(list, dir, call, err);
    kvsi_free(dir);
    if (st != KVS_OK) {
        json_decref(list);
        return st;
    }
    return kvsi_lens_answer_json(out, json_pack("{s:o}", "checkpoints", list), err);
}
