/* The tensors of a GGUF file.  Per tensor: name, number of dimensions, dimensions (innermost
 * first), type, offset of the data; then, aligned, the data. */
#include "base/memory.h"
#include "formats/gguf_file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME_MAX_SIZE = 256,
    DIMENSIONS_MAX = 4,
    DESCRIPTION_MIN = 8 + 4 + 4 + 8, /* bytes of the shortest description: no name, no dimensions */
    USUAL_ALIGNMENT = 32,
    ALIGNMENT_MAX = 1 << 20,
};

/* Types by their number in files.  Those without `is_read` are listed so that messages can name
 * them. */
static const struct {
    unsigned number;
    const char *name;
    int is_read;
    kvsi_dtype dtype;
} types[] = {
    {0, "F32", 1, KVSI_F32},    {1, "F16", 1, KVSI_F16},    {30, "BF16", 1, KVSI_BF16},
    {2, "Q4_0", 1, KVSI_Q4_0},  {3, "Q4_1", 0, 0},          {6, "Q5_0", 1, KVSI_Q5_0},
    {7, "Q5_1", 0, 0},          {8, "Q8_0", 1, KVSI_Q8_0},  {9, "Q8_1", 0, 0},
    {10, "Q2_K", 0, 0},         {11, "Q3_K", 0, 0},         {12, "Q4_K", 1, KVSI_Q4_K},
    {13, "Q5_K", 1, KVSI_Q5_K}, {14, "Q6_K", 1, KVSI_Q6_K}, {15, "Q8_K", 0, 0},
    {16, "IQ2_XXS", 0, 0},      {17, "IQ2_XS", 0, 0},       {18, "IQ3_XXS", 0, 0},
    {19, "IQ1_S", 0, 0},        {20, "IQ4_NL", 0, 0},       {21, "IQ3_S", 0, 0},
    {22, "IQ2_S", 0, 0},        {23, "IQ4_XS", 0, 0},       {24, "I8", 0, 0},
    {25, "I16", 0, 0},          {26, "I32", 0, 0},          {27, "I64", 0, 0},
    {28, "F64", 0, 0},          {29, "IQ1_M", 0, 0},
};

enum { TYPES = sizeof types / sizeof *types };

__attribute__((format(printf, 4, 5))) static kvs_status
refuse(const char *path, const char *name, kvs_err *err, const char *format, ...)
{
    char problem[256];
    va_list args;

    va_start(args, format);
    vsnprintf(problem, sizeof problem, format, args);
    va_end(args);
    return kvsi_fail(err, KVS_E_FORMAT, "'%s': tensor '%.100s' %s", path, name, problem);
}

/* ---- one description ------------------------------------------------------------------------- */

static kvs_status take_name(kvsi_gguf_cursor *c, kvsi_file_tensor *tensor)
{
    const char *text = NULL;
    size_t size = 0;
    char *name;

    TRY(kvsi_gguf_take_text(c, &text, &size));
    if (size == 0 || size > NAME_MAX_SIZE || memchr(text, '\0', size))
        return kvsi_fail(c->err, KVS_E_FORMAT,
                         "'%s': a tensor's name has %zu bytes, expected 1 to %d and no NUL",
                         c->path, size, NAME_MAX_SIZE);
    name = kvsi_alloc(size + 1, 1);
    if (!name)
        return kvsi_no_memory(c->err, "'%s'", c->path);
    memcpy(name, text, size);
    tensor->name = name;
    return KVS_OK;
}

static kvs_status take_shape(kvsi_gguf_cursor *c, kvsi_file_tensor *tensor)
{
    uint64_t rank = 0;

    TRY(kvsi_gguf_take(c, &rank, 4));
    if (rank > DIMENSIONS_MAX)
        return refuse(c->path, tensor->name, c->err,
                      "has %" PRIu64 " dimensions, expected at most %d", rank, DIMENSIONS_MAX);
    tensor->rank = (size_t)rank;
    for (size_t i = tensor->rank; i-- > 0;) {
        uint64_t length = 0;

        TRY(kvsi_gguf_take(c, &length, 8));
        tensor->shape[i] = (size_t)length;
    }
    return KVS_OK;
}

static kvs_status take_type(kvsi_gguf_cursor *c, kvsi_file_tensor *tensor)
{
    uint64_t number = 0;
    const char *name = "unknown";

    TRY(kvsi_gguf_take(c, &number, 4));
    for (size_t i = 0; i < TYPES; i++) {
        if (types[i].number != number)
            continue;
        if (types[i].is_read) {
            tensor->dtype = types[i].dtype;
            return KVS_OK;
        }
        name = types[i].name;
    }
    return kvsi_fail(c->err, KVS_E_UNSUPPORTED,
                     "'%s': tensor '%.100s' has type %s (%" PRIu64
                     "), expected F32, F16, BF16, Q8_0, Q4_0, Q5_0, "
                     "Q4_K, Q5_K or Q6_K",
                     c->path, tensor->name, name, number);
}

/* No type takes more than four bytes per value, so if this does not overflow, bytes do not
 * either. */
static kvs_status check_size(const kvsi_gguf_cursor *c, const kvsi_file_tensor *tensor)
{
    const size_t block = kvsi_dtype_block(tensor->dtype);
    const size_t row = tensor->rank > 0 ? tensor->shape[tensor->rank - 1] : 1;
    size_t bytes = sizeof(float);

    for (size_t i = 0; i < tensor->rank; i++)
        if (__builtin_mul_overflow(bytes, tensor->shape[i], &bytes))
            return refuse(c->path, tensor->name, c->err, "has a shape whose size overflows");
    if (row % block != 0)
        return refuse(c->path, tensor->name, c->err, "has rows of %zu, expected blocks of %zu", row,
                      block);
    return KVS_OK;
}

/* Until all descriptions are read, tensor->data points to the offset in the description. */
static kvs_status take_tensor(kvsi_gguf_cursor *c, kvsi_file_tensor *tensor)
{
    uint64_t offset = 0;

    TRY(take_name(c, tensor));
    TRY(take_shape(c, tensor));
    TRY(take_type(c, tensor));
    TRY(check_size(c, tensor));
    tensor->data = c->at;
    return kvsi_gguf_take(c, &offset, 8);
}

/* ---- data ------------------------------------------------------------------------------------ */

static kvs_status get_alignment(size_t *out, const kvsi_gguf *file, kvs_err *err)
{
    int64_t alignment = USUAL_ALIGNMENT;

    TRY(kvsi_gguf_get_whole(&alignment, file, "general.alignment", err));
    if (alignment < 1 || alignment > ALIGNMENT_MAX || (alignment & (alignment - 1)) != 0)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': key 'general.alignment': expected a power of 2 up to %d, found "
                         "%" PRId64,
                         file->path, ALIGNMENT_MAX, alignment);
    *out = (size_t)alignment;
    return KVS_OK;
}

/* Replaces the pointer to the offset by the pointer to the data. */
static kvs_status place(kvsi_file_tensor *tensor, const kvsi_gguf *file, size_t start,
                        size_t alignment, kvs_err *err)
{
    const size_t bytes = kvsi_file_tensor_bytes(tensor);
    const size_t available = start < file->map.size ? file->map.size - start : 0;
    kvsi_gguf_cursor c = {.at = tensor->data, .end = file->map.data + file->map.size};
    uint64_t offset = 0;

    kvsi_gguf_take(&c, &offset, 8); /* checked before */
    if (offset % alignment != 0)
        return refuse(file->path, tensor->name, err,
                      "is at offset %" PRIu64 ", expected a multiple of %zu", offset, alignment);
    if (offset > available || bytes > available - offset)
        return refuse(file->path, tensor->name, err,
                      "has %zu bytes at offset %" PRIu64 ", beyond the file's %zu bytes of data",
                      bytes, offset, available);
    tensor->data = file->map.data + (bytes > 0 ? start + offset : 0);
    return KVS_OK;
}

static int compare_place(const void *left, const void *right)
{
    const kvsi_file_tensor *const *a = left, *const *b = right;
    const uintptr_t a_place = (uintptr_t)(*a)->data, b_place = (uintptr_t)(*b)->data;

    if (a_place != b_place)
        return a_place < b_place ? -1 : 1;
    return strcmp((*a)->name, (*b)->name);
}

static kvs_status check_overlaps(const kvsi_gguf *file, kvs_err *err)
{
    const size_t count = (size_t)file->tensor_count;
    const kvsi_file_tensor **sorted = kvsi_alloc(count, sizeof(kvsi_file_tensor *));
    kvs_status st = KVS_OK;

    if (!sorted)
        return kvsi_no_memory(err, "'%s'", file->path);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &file->tensors[i];
    qsort(sorted, count, sizeof(kvsi_file_tensor *), compare_place);
    for (size_t i = 1; i < count && st == KVS_OK; i++) {
        const char *end = (const char *)sorted[i - 1]->data + kvsi_file_tensor_bytes(sorted[i - 1]);

        if ((const char *)sorted[i]->data < end)
            st = refuse(file->path, sorted[i]->name, err, "overlaps tensor '%.100s'",
                        sorted[i - 1]->name);
    }
    kvsi_free(sorted);
    return st;
}

/* ---- all tensors ----------------------------------------------------------------------------- */

kvs_status kvsi_gguf_read_tensors(kvsi_gguf *file, kvs_err *err)
{
    kvsi_gguf_cursor c = {file->path, "tensors' descriptions", file->after_keys,
                          file->map.data + file->map.size, err};
    const size_t available = (size_t)(c.end - c.at) / DESCRIPTION_MIN;
    size_t alignment = USUAL_ALIGNMENT, start;

    if (file->tensor_count > available)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s' claims %" PRIu64 " tensors, but its size allows at most %zu",
                         file->path, file->tensor_count, available);
    file->tensors = kvsi_alloc((size_t)file->tensor_count, sizeof *file->tensors);
    if (!file->tensors)
        return kvsi_no_memory(err, "the %" PRIu64 " tensors of '%s'", file->tensor_count,
                              file->path);
    TRY(get_alignment(&alignment, file, err));
    for (size_t i = 0; i < file->tensor_count; i++)
        TRY(take_tensor(&c, &file->tensors[i]));
    start = ((size_t)(c.at - file->map.data) + alignment - 1) / alignment * alignment;
    for (size_t i = 0; i < file->tensor_count; i++)
        TRY(place(&file->tensors[i], file, start, alignment, err));
    return check_overlaps(file, err);
}

size_t kvsi_gguf_tensor_count(const kvsi_gguf *file)
{
    return file->tensors ? (size_t)file->tensor_count : 0;
}

const kvsi_file_tensor *kvsi_gguf_tensor_at(const kvsi_gguf *file, size_t index)
{
    return index < kvsi_gguf_tensor_count(file) ? &file->tensors[index] : NULL;
}

const kvsi_file_tensor *kvsi_gguf_find_tensor(const kvsi_gguf *file, const char *name)
{
    for (size_t i = 0; i < kvsi_gguf_tensor_count(file); i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}
