/* The part of opening a model that all formats share. */
#include "base/array.h"
#include "base/files.h"
#include "base/memory.h"
#include "formats/llama_layout.h"
#include "formats/weights_open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char HEAD[] = "lm_head.weight";

static const char *embedding_name(kvsi_body body)
{
    return body == KVSI_BODY_GPT2 ? "transformer.wte.weight" : "model.embed_tokens.weight";
}

/* ---- adding tensors -------------------------------------------------------------------------- */

/* kvsi_weights_read relies on this: whole heads of whole pairs. */
static kvs_status check_interleaved(const char *name, const kvsi_file_tensor *view, size_t heads,
                                    const char *file, kvs_err *err)
{
    if (heads > 0 && (view->rank < 1 || view->rank > 2 || view->shape[0] == 0 ||
                      view->shape[0] % heads != 0 || view->shape[0] / heads % 2 != 0))
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': tensor '%.100s' has %zu rows, expected %zu heads of an even size",
                         file, name, view->rank > 0 ? view->shape[0] : 0, heads);
    return KVS_OK;
}

kvs_status kvsi_weights_add(kvsi_weights *w, const char *name, const kvsi_file_tensor *view,
                            size_t interleaved_heads, const char *file, kvs_err *err)
{
    char *copy = NULL;

    TRY(check_interleaved(name, view, interleaved_heads, file, err));
    TRY(kvsi_array_reserve(&w->tensors, &w->capacity, w->count + 1, sizeof *w->tensors, err));
    copy = kvsi_strdup(name);
    if (!copy)
        return kvsi_no_memory(err, "the tensors of '%s'", w->path);
    w->tensors[w->count] =
        (kvsi_weights_tensor){.view = *view, .interleaved_heads = interleaved_heads, .file = file};
    w->tensors[w->count++].view.name = copy;
    return KVS_OK;
}

kvs_status kvsi_weights_add_runs(kvsi_weights *w, const char *name, const kvsi_file_tensor *view,
                                 size_t runs, size_t run_step, const char *file, kvs_err *err)
{
    TRY(kvsi_weights_add(w, name, view, 0, file, err));
    if (runs > 1) {
        w->tensors[w->count - 1].runs = runs;
        w->tensors[w->count - 1].run_step = run_step;
    }
    return KVS_OK;
}

const char *kvsi_layer_part(size_t *layer, const char *name, size_t layers)
{
    static const char prefix[] = "model.layers.";
    const char *at = name + sizeof prefix - 1;
    size_t number = 0;

    if (strncmp(name, prefix, sizeof prefix - 1) != 0 || *at < '0' || *at > '9')
        return NULL;
    for (; *at >= '0' && *at <= '9' && number < layers; at++)
        number = 10 * number + (size_t)(*at - '0');
    *layer = number;
    return number < layers && *at == '.' ? at + 1 : NULL;
}

/* ---- several tensors in one ------------------------------------------------------------------ */

enum { PACKED_NAME_SIZE = 512 };

/* The rows of one of our matrices with biases or without. */
static size_t rows_of(const char *part, const kvs_model_config *c)
{
    const size_t head = c->head_size > 0 ? c->head_size : c->dim / c->heads;

    return strncmp(part, "q_", 2) == 0                                  ? c->heads * head
           : strncmp(part, "k_", 2) == 0 || strncmp(part, "v_", 2) == 0 ? c->kv_heads * head
           : strncmp(part, "embed_positions", 15) == 0                  ? c->context
                                                                        : c->ffn;
}

/* By head all parts have the same number of heads, since such families have no key for another
 * one. */
kvs_status kvsi_weights_add_packed(kvsi_weights *w, const kvsi_file_tensor *tensor,
                                   const kvsi_packed_rows *packed, int interleaved,
                                   const char *file, kvs_err *err)
{
    const int prefix = (int)(strlen(tensor->name) - strlen(packed->name));
    const size_t runs = packed->by_head ? w->config.heads : 1;
    kvsi_file_tensor view = *tensor;
    size_t expected = packed->unused, run_step = 0;

    for (size_t i = 0; i < KVSI_PACKED_MAX && packed->parts[i]; i++) {
        expected += rows_of(packed->parts[i], &w->config);
        run_step += rows_of(packed->parts[i], &w->config) / runs;
    }
    if (tensor->rank == 0 || tensor->shape[0] != expected)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': tensor '%.100s' has %zu rows, the configuration needs %zu", file,
                         tensor->name, tensor->rank > 0 ? tensor->shape[0] : 0, expected);
    view.shape[0] = packed->unused;
    view.data = (const unsigned char *)view.data + kvsi_file_tensor_bytes(&view);
    for (size_t i = 0; i < KVSI_PACKED_MAX && packed->parts[i]; i++) {
        char name[PACKED_NAME_SIZE];

        if (snprintf(name, sizeof name, "%.*s%s", prefix, tensor->name, packed->parts[i]) >=
            (int)sizeof name)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': the name of tensor '%.100s' is too long",
                             file, tensor->name);
        view.shape[0] = rows_of(packed->parts[i], &w->config);
        if (interleaved)
            TRY(kvsi_weights_add(w, name, &view, kvsi_rotary_heads(name, &w->config), file, err));
        else
            TRY(kvsi_weights_add_runs(w, name, &view, runs, run_step, file, err));
        view.shape[0] /= runs;
        view.data = (const unsigned char *)view.data + kvsi_file_tensor_bytes(&view);
    }
    return KVS_OK;
}

/* ---- after all tensors are added ------------------------------------------------------------- */

static kvsi_weights_tensor *find_unsorted(const kvsi_weights *w, const char *name)
{
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->tensors[i].view.name, name) == 0)
            return &w->tensors[i];
    return NULL;
}

static int is_same_shape(const kvsi_file_tensor *a, const kvsi_file_tensor *b)
{
    return a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

/* Whether two tables of equal shape have the same values. */
static kvs_status compare_tables(int *same, const kvsi_weights_tensor *a,
                                 const kvsi_weights_tensor *b, kvs_err *err)
{
    const size_t rows = a->view.rank > 0 ? a->view.shape[0] : 0;
    const size_t width = rows > 0 ? kvsi_file_tensor_count(&a->view) / rows : 0;
    float *numbers;

    *same = a->view.dtype == b->view.dtype &&
            memcmp(a->view.data, b->view.data, kvsi_file_tensor_bytes(&a->view)) == 0;
    if (*same || a->view.dtype == b->view.dtype || width == 0)
        return KVS_OK;
    numbers = kvsi_alloc(2 * width, sizeof *numbers);
    if (!numbers)
        return kvsi_no_memory(err, "the tensors of '%s'", a->file);
    *same = 1;
    for (size_t i = 0; i < rows && *same; i++) {
        kvsi_weights_read_rows(numbers, a, i, 1);
        kvsi_weights_read_rows(numbers + width, b, i, 1);
        *same = memcmp(numbers, numbers + width, width * sizeof *numbers) == 0;
    }
    kvsi_free(numbers);
    return KVS_OK;
}

/* Some programs use a tied model's separate head, others ignore it, so one that differs is
 * refused. */
static kvs_status check_copy(const kvsi_weights_tensor *head, const kvsi_weights_tensor *embedding,
                             kvs_err *err)
{
    int same = 0;

    if (is_same_shape(&head->view, &embedding->view))
        TRY(compare_tables(&same, head, embedding, err));
    if (!same)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': tensor '%s' differs from '%s', but the configuration ties them "
                         "('tie_word_embeddings')",
                         head->file, head->view.name, embedding->view.name);
    return KVS_OK;
}

/* Files of a tied model store the table as the embedding, as the head, or as both. */
static kvs_status settle_tied(kvsi_weights *w, kvs_err *err)
{
    kvsi_weights_tensor *head = w->config.tied ? find_unsorted(w, HEAD) : NULL;
    const char *embedding = embedding_name(w->config.body);
    const kvsi_weights_tensor *table;
    char *name;

    if (!head)
        return KVS_OK;
    table = find_unsorted(w, embedding);
    if (!table) {
        name = kvsi_strdup(embedding);
        if (!name)
            return kvsi_no_memory(err, "the tensors of '%s'", w->path);
        kvsi_free((char *)head->view.name);
        head->view.name = name;
        return KVS_OK;
    }
    TRY(check_copy(head, table, err));
    kvsi_free((char *)head->view.name);
    memmove(head, head + 1, (size_t)(w->tensors + w->count - (head + 1)) * sizeof *head);
    w->count--;
    return KVS_OK;
}

static int compare_name(const void *left, const void *right)
{
    const kvsi_weights_tensor *const *a = left, *const *b = right;

    return strcmp((*a)->view.name, (*b)->view.name);
}

static kvs_status sort(kvsi_weights *w, kvs_err *err)
{
    w->by_name = kvsi_alloc(w->count, sizeof(kvsi_weights_tensor *));
    if (!w->by_name)
        return kvsi_no_memory(err, "the tensors of '%s'", w->path);
    for (size_t i = 0; i < w->count; i++)
        w->by_name[i] = &w->tensors[i];
    qsort(w->by_name, w->count, sizeof(kvsi_weights_tensor *), compare_name);
    for (size_t i = 1; i < w->count; i++)
        if (compare_name(&w->by_name[i - 1], &w->by_name[i]) == 0)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s' has the tensor '%.100s' twice",
                             w->by_name[i]->file, w->by_name[i]->view.name);
    return KVS_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static kvs_status open_content(kvsi_weights *w, kvsi_content found, kvs_err *err)
{
    char *folder = kvsi_path_parent(w->path);
    kvs_status st = KVS_OK;

    if (!folder)
        return kvsi_no_memory(err, "the tensors of '%s'", w->path);
    switch (found) {
    case KVSI_CONTENT_FOLDER:
        st = kvsi_weights_open_hf(w, w->path, NULL, err);
        break;
    case KVSI_CONTENT_FOLDER_MEMBER:
        st = kvsi_weights_open_hf(w, folder, NULL, err);
        break;
    case KVSI_CONTENT_SAFETENSORS:
        st = kvsi_weights_open_hf(w, folder, w->path, err);
        break;
    case KVSI_CONTENT_GGUF:
        st = kvsi_weights_open_gguf(w, w->path, err);
        break;
    case KVSI_CONTENT_OTHER:
        st = kvsi_weights_open_llama2c(w, w->path, err);
        break;
    case KVSI_CONTENT_JSON:
        st = kvsi_fail(err, KVS_E_FORMAT,
                       "'%s' is not a model: expected a folder, safetensors, GGUF or llama2.c",
                       w->path);
        break;
    }
    kvsi_free(folder);
    return st;
}

kvs_status kvsi_weights_open(kvsi_weights **out, const char *path, kvs_err *err)
{
    kvsi_weights *w = kvsi_alloc(1, sizeof *w);
    kvsi_content found = KVSI_CONTENT_OTHER;
    kvs_status st = KVS_OK;

    *out = NULL;
    if (!w || !(w->path = kvsi_strdup(path))) {
        st = kvsi_no_memory(err, "the tensors of '%s'", path);
        goto out;
    }
    w->ids = (kvsi_token_ids)KVSI_NO_TOKEN_IDS;
    TRY_OUT(kvsi_detect_content(&found, path, err));
    TRY_OUT(open_content(w, found, err));
    TRY_OUT(settle_tied(w, err));
    TRY_OUT(sort(w, err));
    *out = w;
    w = NULL;
out:
    kvsi_weights_close(w);
    return st;
}

void kvsi_weights_close(kvsi_weights *w)
{
    if (!w)
        return;
    kvsi_read_ahead_end(w->ahead);
    for (size_t i = 0; i < w->count; i++)
        kvsi_free((char *)w->tensors[i].view.name);
    kvsi_free(w->tensors);
    kvsi_free(w->by_name);
    for (size_t i = 0; i < w->shard_count; i++) {
        kvsi_safetensors_close(w->shards[i].file);
        kvsi_free(w->shards[i].path);
    }
    kvsi_free(w->shards);
    kvsi_gguf_close(w->gguf);
    kvsi_mapping_close(&w->map);
    kvsi_free(w->file);
    kvsi_free(w->path);
    kvsi_free(w);
}

/* ---- access ---------------------------------------------------------------------------------- */

const char *kvsi_weights_path(const kvsi_weights *w)
{
    return w->path;
}

const char *kvsi_weights_file(const kvsi_weights *w)
{
    return w->file;
}

kvsi_weights_format kvsi_weights_get_format(const kvsi_weights *w)
{
    return w->format;
}

const kvs_model_config *kvsi_weights_config(const kvsi_weights *w)
{
    return &w->config;
}

const kvsi_token_ids *kvsi_weights_token_ids(const kvsi_weights *w)
{
    return &w->ids;
}

size_t kvsi_weights_count(const kvsi_weights *w)
{
    return w->count;
}

const kvsi_weights_tensor *kvsi_weights_at(const kvsi_weights *w, size_t index)
{
    return index < w->count ? &w->tensors[index] : NULL;
}

const kvsi_weights_tensor *kvsi_weights_find(const kvsi_weights *w, const char *name)
{
    const int is_tied_head = w->config.tied && strcmp(name, HEAD) == 0;
    const kvsi_weights_tensor wanted = {.view.name =
                                            is_tied_head ? embedding_name(w->config.body) : name},
                              *key = &wanted;
    const kvsi_weights_tensor **found =
        bsearch(&key, w->by_name, w->count, sizeof(kvsi_weights_tensor *), compare_name);

    return found ? *found : NULL;
}

int kvsi_weights_is_whole(const kvsi_weights_tensor *tensor)
{
    return tensor->interleaved_heads == 0 && tensor->runs == 0;
}

size_t kvsi_weights_extent(const kvsi_weights_tensor *tensor)
{
    const size_t bytes = kvsi_file_tensor_bytes(&tensor->view);

    if (tensor->runs == 0)
        return bytes;
    return bytes / tensor->view.shape[0] *
           ((tensor->runs - 1) * tensor->run_step + tensor->view.shape[0] / tensor->runs);
}

void kvsi_weights_read_ahead(kvsi_weights *w)
{
    kvsi_extent *ranges;

    if (atomic_exchange(&w->reads_ahead, 1))
        return;
    ranges = kvsi_alloc(w->count, sizeof *ranges);
    for (size_t i = 0; ranges && i < w->count; i++)
        ranges[i] = (kvsi_extent){w->tensors[i].view.data, kvsi_weights_extent(&w->tensors[i])};
    if (ranges)
        w->ahead = kvsi_read_ahead_start(ranges, w->count);
    kvsi_free(ranges);
}

/* Row j of a head in our order is row 2j in the file, or row 2j + 1 - size in the second half. */
static size_t interleaved_row(size_t row, size_t head_size)
{
    const size_t start = row / head_size * head_size, j = row - start;

    return start + (j < head_size / 2 ? 2 * j : 2 * j + 1 - head_size);
}

/* The place of one of our rows in the file, in rows behind the first. */
static size_t file_row(const kvsi_weights_tensor *tensor, size_t row)
{
    const size_t rows = tensor->view.shape[0];
    size_t in_run = rows;

    if (tensor->interleaved_heads > 0)
        return interleaved_row(row, rows / tensor->interleaved_heads);
    if (tensor->runs > 0)
        in_run = rows / tensor->runs;
    return row / in_run * tensor->run_step + row % in_run;
}

void kvsi_weights_read_rows(float *out, const kvsi_weights_tensor *tensor, size_t first,
                            size_t count)
{
    const kvsi_file_tensor *view = &tensor->view;
    const size_t width = kvsi_file_tensor_count(view) / view->shape[0];
    const size_t bytes = kvsi_dtype_bytes(view->dtype, width);
    const unsigned char *data = view->data;

    if (kvsi_weights_is_whole(tensor))
        kvsi_dtype_decode(out, view->dtype, data + first * bytes, count * width);
    for (size_t i = 0; !kvsi_weights_is_whole(tensor) && i < count; i++)
        kvsi_dtype_decode(out + i * width, view->dtype, data + file_row(tensor, first + i) * bytes,
                          width);
    for (size_t i = 0; tensor->plus_one && i < count * width; i++)
        out[i] -= 1;
}

void kvsi_weights_read(float *out, const kvsi_weights_tensor *tensor)
{
    kvsi_weights_read_rows(out, tensor, 0, tensor->view.shape[0]);
}
