#include "convert/merged.h"

#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/adapter_files.h"
#include "model/adapters.h"
#include "parallel/threads.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CONFIG_LIMIT = 1 << 20 }; /* bytes of adapter_config.json */

int kvsi_is_adapter(const char *path)
{
    char *config = kvsi_path_join(path, KVSI_ADAPTER_CONFIG);
    char *model = kvsi_path_join(path, "config.json");
    const int is = config && model && kvsi_file_exists(config) && !kvsi_file_exists(model);

    kvsi_free(config);
    kvsi_free(model);
    return is;
}

static kvs_status start(kvsi_merged *merge, const kvsi_layout *layout, kvs_err *err)
{
    *merge = (kvsi_merged){.count = layout->count,
                           .tensors = kvsi_alloc(layout->count, sizeof *merge->tensors)};
    return merge->tensors ? KVS_OK : kvsi_no_memory(err, "%zu tensors", layout->count);
}

void kvsi_merge_release(kvsi_merged *merge)
{
    kvsi_safetensors_close(merge->file);
    kvsi_free(merge->path);
    kvsi_free(merge->tensors);
    *merge = (kvsi_merged){0};
}

/* ---- adapters in the model's file ------------------------------------------------------------ */

static const kvsi_file_tensor *find_own(const kvsi_weights *weights, const char *weight,
                                        kvsi_role role)
{
    const kvsi_weights_tensor *found;
    char name[KVSI_NAME_SIZE];

    kvsi_adapter_name(name, weight, role);
    found = kvsi_weights_find(weights, name);
    return found ? &found->view : NULL;
}

/* The weights were checked when they were opened, so that A and B have their shapes. */
kvs_status kvsi_merge_own(kvsi_merged *merge, const kvsi_weights *weights,
                          const kvsi_layout *layout, kvs_err *err)
{
    const kvsi_lora_config *lora = &kvsi_weights_config(weights)->lora;

    TRY(start(merge, layout, err));
    merge->scale = lora->alpha / (double)lora->rank;
    for (size_t i = 0; i < layout->count; i++) {
        const kvsi_parameter *p = &layout->list[i];

        if (kvsi_is_adapted(lora->on, p)) {
            merge->tensors[i].a = find_own(weights, p->name, KVSI_LORA_A);
            merge->tensors[i].b = find_own(weights, p->name, KVSI_LORA_B);
        }
    }
    return KVS_OK;
}

/* ---- PEFT's configuration -------------------------------------------------------------------- */

typedef struct settings {
    char *path;
    json_t *json;
    size_t rank;
    double scale;
} settings;

static void settings_release(settings *s)
{
    kvsi_free(s->path);
    json_decref(s->json);
}

static kvs_status read_json(settings *s, const char *adapter, kvs_err *err)
{
    s->path = kvsi_path_join(adapter, KVSI_ADAPTER_CONFIG);
    if (!s->path)
        return kvsi_no_memory(err, "'%s'", adapter);
    return kvsi_json_read(&s->json, s->path, CONFIG_LIMIT, err);
}

/* Keys that make an adapter something else than B A, or give matrices other factors.  They must be
 * missing, null, false, or empty. */
static kvs_status check_plain(const settings *s, kvs_err *err)
{
    static const char *const keys[] = {
        "use_dora",          "rank_pattern",           "alpha_pattern", "lora_bias",
        "layer_replication", "megatron_config",        "use_qalora",    "trainable_token_indices",
        "target_parameters", "alora_invocation_tokens"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(s->json, keys[i]);

        if (value && !json_is_null(value) && !json_is_false(value) &&
            !(json_is_object(value) && json_object_size(value) == 0) &&
            !(json_is_array(value) && json_array_size(value) == 0))
            return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key '%s' is set, expected it unset",
                             s->path, keys[i]);
    }
    return KVS_OK;
}

/* Some ways to initialise A and B also change W. */
static kvs_status check_start(const settings *s, kvs_err *err)
{
    static const char *const harmless[] = {"gaussian", "eva", "orthogonal"};
    const json_t *value = json_object_get(s->json, "init_lora_weights");

    if (!json_is_string(value))
        return KVS_OK;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(json_string_value(value), harmless[i]) == 0)
            return KVS_OK;
    return kvsi_fail(err, KVS_E_UNSUPPORTED,
                     "'%s': key 'init_lora_weights': adapters that start as '%.40s' change the "
                     "base model",
                     s->path, json_string_value(value));
}

static kvs_status expect_text(const settings *s, const char *key, const char *expected,
                              kvs_err *err)
{
    const char *found = expected;

    TRY(kvsi_json_get_text(&found, s->json, key, s->path, err));
    if (strcmp(found, expected) != 0)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key '%s': expected '%s', found '%.40s'",
                         s->path, key, expected, found);
    return KVS_OK;
}

static kvs_status read_settings(settings *s, const char *adapter, kvs_err *err)
{
    double alpha = 0;
    int rank_stable = 0;

    TRY(read_json(s, adapter, err));
    TRY(kvsi_json_require(s->json, "peft_type", s->path, err));
    TRY(expect_text(s, "peft_type", "LORA", err));
    TRY(expect_text(s, "bias", "none", err));
    TRY(check_plain(s, err));
    TRY(check_start(s, err));
    TRY(kvsi_json_require(s->json, "r", s->path, err));
    TRY(kvsi_json_require(s->json, "lora_alpha", s->path, err));
    TRY(kvsi_json_get_size(&s->rank, s->json, "r", s->path, err));
    TRY(kvsi_json_get_real(&alpha, s->json, "lora_alpha", s->path, err));
    TRY(kvsi_json_get_bool(&rank_stable, s->json, "use_rslora", s->path, err));
    if (s->rank == 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key 'r': expected at least 1, found 0", s->path);
    s->scale = alpha / (rank_stable ? sqrt((double)s->rank) : (double)s->rank);
    return KVS_OK;
}

kvs_status kvsi_adapter_base(char **out, const char *adapter, kvs_err *err)
{
    static const char key[] = "base_model_name_or_path";
    const char *base = NULL;
    settings s = {0};
    kvs_status st;

    *out = NULL;
    TRY_OUT(read_json(&s, adapter, err));
    if (!json_is_null(json_object_get(s.json, key)))
        TRY_OUT(kvsi_json_get_text(&base, s.json, key, s.path, err));
    if (base && *base && !(*out = kvsi_strdup(base)))
        st = kvsi_no_memory(err, "'%s'", adapter);
out:
    settings_release(&s);
    return st;
}

/* ---- PEFT's tensors -------------------------------------------------------------------------- */

static kvs_status expect_shape(const kvsi_merged *m, const kvsi_file_tensor *t, size_t rows,
                               size_t cols, kvs_err *err)
{
    if (t->dtype != KVSI_F32 && t->dtype != KVSI_F16 && t->dtype != KVSI_BF16)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': tensor '%.100s' is of type %s, expected F32, F16 or BF16", m->path,
                         t->name, kvsi_dtype_name(t->dtype));
    if (t->rank != 2 || t->shape[0] != rows || t->shape[1] != cols)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': tensor '%.100s' has shape (%zu,%zu), the model needs (%zu,%zu)",
                         m->path, t->name, t->rank > 0 ? t->shape[0] : 0,
                         t->rank > 1 ? t->shape[1] : 0, rows, cols);
    return KVS_OK;
}

/* Whether a tensor of the family's files has the shape of the model's: the same, or
 * [channels, 1, taps]. */
static int is_shape_of(const kvsi_file_tensor *t, const kvsi_parameter *p, kvsi_file_shape shape)
{
    const size_t taps = p->shape[p->rank - 1];

    if (shape == KVSI_SHAPE_SAME)
        return t->rank == p->rank && memcmp(t->shape, p->shape, p->rank * sizeof *p->shape) == 0;
    return t->rank == 3 && t->shape[0] == p->count / taps && t->shape[1] == 1 &&
           t->shape[2] == taps;
}

/* A tensor that replaces one of the model. */
static kvs_status take_whole(const kvsi_merged *m, const kvsi_file_tensor *t,
                             const kvsi_parameter *p, kvsi_file_shape shape, kvs_err *err)
{
    if (t->dtype != KVSI_F32 && t->dtype != KVSI_F16 && t->dtype != KVSI_BF16)
        return expect_shape(m, t, 0, 0, err);
    if (!is_shape_of(t, p, shape))
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': tensor '%.100s' does not have the shape of that of the model",
                         m->path, t->name);
    return KVS_OK;
}

/* The name without PEFT's prefix and, for A and B, with .weight directly after the matrix. */
static kvsi_role model_name(char out[KVSI_NAME_SIZE], const char *name)
{
    static const char *const ends[] = {".lora_A.weight", ".lora_B.weight"};
    static const char prefix[] = KVSI_ADAPTER_PREFIX;
    const size_t skipped = strncmp(name, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;

    snprintf(out, KVSI_NAME_SIZE, "%s", name + skipped);
    for (size_t i = 0; i < 2; i++)
        if (kvsi_ends_with(out, ends[i])) {
            snprintf(out + strlen(out) - strlen(ends[i]), sizeof ".weight", ".weight");
            return i == 0 ? KVSI_LORA_A : KVSI_LORA_B;
        }
    return KVSI_HEAD; /* of no adapter */
}

/* The model's tensor with our name or the family's, and its shape in the file; NULL = none. */
static const kvsi_parameter *find_tensor(kvsi_file_shape *shape, const kvsi_layout *layout,
                                         const kvsi_family *family, const char *name)
{
    const kvsi_parameter *p = kvsi_layout_find(layout, name);
    char ours[KVSI_NAME_SIZE];

    *shape = KVSI_SHAPE_SAME;
    if (p || !family || !kvsi_family_our_name(ours, sizeof ours, shape, family, name))
        return p;
    return kvsi_layout_find(layout, ours);
}

static kvs_status place(kvsi_merged *m, const kvsi_file_tensor *t, const settings *s,
                        const kvsi_layout *layout, const kvsi_family *family, kvs_err *err)
{
    char name[KVSI_NAME_SIZE];
    kvsi_file_shape shape;
    const kvsi_role role = model_name(name, t->name);
    const kvsi_parameter *p = find_tensor(&shape, layout, family, name);
    kvsi_merged_tensor *to = p ? &m->tensors[p - layout->list] : NULL;
    const int is_factor = role == KVSI_LORA_A || role == KVSI_LORA_B;

    if (!p || (is_factor && (p->rank != 2 || kvsi_group_of(p->role) != KVSI_MATRICES)))
        return kvsi_fail(
            err, KVS_E_UNSUPPORTED, "'%s': tensor '%.100s' has no place in the model%s", m->path,
            t->name, kvsi_ends_with(name, "_shift") ? ", which has no shift: see --retrofit" : "");
    if (!is_factor) {
        to->whole = t;
        return take_whole(m, t, p, shape, err);
    }
    *(role == KVSI_LORA_A ? &to->a : &to->b) = t;
    return role == KVSI_LORA_A ? expect_shape(m, t, s->rank, p->shape[p->transposed ? 0 : 1], err)
                               : expect_shape(m, t, p->shape[p->transposed ? 1 : 0], s->rank, err);
}

static kvs_status check_pairs(const kvsi_merged *m, const kvsi_layout *layout, kvs_err *err)
{
    for (size_t i = 0; i < m->count; i++)
        if (!m->tensors[i].a != !m->tensors[i].b)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s' has no lora_%c of '%s'", m->path,
                             m->tensors[i].a ? 'B' : 'A', layout->list[i].name);
    return KVS_OK;
}

kvs_status kvsi_merge_open(kvsi_merged *merge, const char *adapter, const kvsi_layout *layout,
                           const kvsi_family *family, kvs_err *err)
{
    settings s = {0};
    kvs_status st;

    TRY_OUT(read_settings(&s, adapter, err));
    TRY_OUT(start(merge, layout, err));
    merge->scale = s.scale;
    merge->path = kvsi_path_join(adapter, KVSI_ADAPTER_WEIGHTS);
    if (!merge->path) {
        st = kvsi_no_memory(err, "'%s'", adapter);
        goto out;
    }
    TRY_OUT(kvsi_safetensors_open(&merge->file, merge->path, err));
    if (kvsi_safetensors_count(merge->file) == 0) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s' has no tensors", merge->path);
        goto out;
    }
    for (size_t i = 0; i < kvsi_safetensors_count(merge->file); i++)
        TRY_OUT(place(merge, kvsi_safetensors_at(merge->file, i), &s, layout, family, err));
    TRY_OUT(check_pairs(merge, layout, err));
out:
    settings_release(&s);
    return st;
}

/* ---- merging --------------------------------------------------------------------------------- */

/* The values of a tensor as float32, in fresh memory. */
static kvs_status decode(float **out, const kvsi_merged *m, const kvsi_file_tensor *t, kvs_err *err)
{
    const size_t count = kvsi_file_tensor_count(t);

    *out = kvsi_alloc(count, sizeof **out);
    if (!*out)
        return kvsi_no_memory(err, "tensor '%.100s'", t->name);
    kvsi_dtype_decode(*out, t->dtype, t->data, count);
    for (size_t i = 0; i < count; i++)
        if (!isfinite((*out)[i]))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': tensor '%.100s' has %g at %zu",
                             m->path ? m->path : "the model", t->name, (double)(*out)[i], i);
    return KVS_OK;
}

/* Adds scale times the row of B A of one output; its sums are in double. */
static void add_row(float *values, const kvsi_parameter *p, double scale, const float *a,
                    const float *b, size_t rank, size_t output)
{
    enum { COLUMNS = 512 };
    const size_t in = p->shape[p->transposed ? 0 : 1], out = p->shape[p->transposed ? 1 : 0];
    double sums[COLUMNS];

    for (size_t from = 0; from < in; from += COLUMNS) {
        const size_t now = in - from < COLUMNS ? in - from : COLUMNS;

        memset(sums, 0, now * sizeof *sums);
        for (size_t r = 0; r < rank; r++)
            for (size_t i = 0; i < now; i++)
                sums[i] += (double)b[output * rank + r] * (double)a[r * in + from + i];
        for (size_t i = 0; i < now; i++) {
            float *value =
                values + (p->transposed ? (from + i) * out + output : output * in + from + i);

            *value = (float)((double)*value + scale * sums[i]);
        }
    }
}

static kvs_status add_product(float *values, const kvsi_merged *m, const kvsi_parameter *p,
                              const kvsi_merged_tensor *t, int threads, kvs_err *err)
{
    const size_t out = p->shape[p->transposed ? 1 : 0], rank = t->a->shape[0];
    float *a = NULL, *b = NULL;
    kvs_status st;

    TRY_OUT(decode(&a, m, t->a, err));
    TRY_OUT(decode(&b, m, t->b, err));
    KVSI_PARALLEL_PIECES(threads, o, out) {
        add_row(values, p, m->scale, a, b, rank, o);
    }
out:
    kvsi_free(a);
    kvsi_free(b);
    return st;
}

kvs_status kvsi_merge_into(float *values, const kvsi_merged *merge, const kvsi_parameter *p,
                           size_t index, int threads, kvs_err *err)
{
    const kvsi_merged_tensor *t = merge->tensors ? &merge->tensors[index] : NULL;
    float *whole = NULL;
    kvs_status st = KVS_OK;

    if (t && t->whole) {
        TRY_OUT(decode(&whole, merge, t->whole, err));
        memcpy(values, whole, p->count * sizeof *values);
    }
    if (t && t->a)
        TRY_OUT(add_product(values, merge, p, t, threads, err));
out:
    kvsi_free(whole);
    return st;
}
