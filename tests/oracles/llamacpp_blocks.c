/* Runs llama.cpp's tools on quantized weights, for llamacpp_check.py:
 *
 *     llamacpp_blocks quantise IN OUT TYPE pure|mixed    IN (F32) as q8_0 or q4_0; pure: all of it
 *     llamacpp_blocks bytes A B     whether tensors have the same type and bytes
 *     llamacpp_blocks numbers A B                        whether they have the same numbers
 *
 * Comparisons print "TENSORS DIFFERENT", counted over tensors of A, and name those that differ. */
#include "ggml.h"
#include "gguf.h"
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stay_quiet(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level >= GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static int quantise(char **words)
{
    struct llama_model_quantize_params params = llama_model_quantize_default_params();

    params.ftype =
        strcmp(words[2], "q8_0") == 0 ? LLAMA_FTYPE_MOSTLY_Q8_0 : LLAMA_FTYPE_MOSTLY_Q4_0;
    params.pure = strcmp(words[3], "pure") == 0;
    params.nthread = 1;
    return llama_model_quantize(words[0], words[1], &params) != 0;
}

typedef struct model_file {
    struct gguf_context *keys;
    struct ggml_context *tensors;
} model_file;

static model_file read_file(const char *path)
{
    model_file file = {0};

    file.keys = gguf_init_from_file(path, (struct gguf_init_params){.ctx = &file.tensors});
    if (!file.keys)
        exit(1);
    return file;
}

/* The values as ggml dequantises them. */
static float *numbers_of(const struct ggml_tensor *tensor)
{
    const int64_t count = ggml_nelements(tensor);
    float *numbers = malloc((size_t)count * sizeof *numbers);

    if (tensor->type == GGML_TYPE_F32)
        memcpy(numbers, tensor->data, (size_t)count * sizeof *numbers);
    else
        ggml_get_type_traits(tensor->type)->to_float(tensor->data, numbers, count);
    return numbers;
}

static int same_numbers(const struct ggml_tensor *a, const struct ggml_tensor *b)
{
    float *first, *second;
    int same;

    if (ggml_nelements(a) != ggml_nelements(b))
        return 0;
    first = numbers_of(a);
    second = numbers_of(b);
    same = memcmp(first, second, (size_t)ggml_nelements(a) * sizeof *first) == 0;
    free(first);
    free(second);
    return same;
}

static int same_bytes(const struct ggml_tensor *a, const struct ggml_tensor *b)
{
    return a->type == b->type && ggml_nbytes(a) == ggml_nbytes(b) &&
           memcmp(a->data, b->data, ggml_nbytes(a)) == 0;
}

static int compare(char **words, int by_numbers)
{
    const model_file a = read_file(words[0]), b = read_file(words[1]);
    int count = 0, different = 0;

    for (struct ggml_tensor *t = ggml_get_first_tensor(a.tensors); t;
         t = ggml_get_next_tensor(a.tensors, t)) {
        const struct ggml_tensor *other = ggml_get_tensor(b.tensors, t->name);

        if (gguf_find_tensor(a.keys, t->name) < 0)
            continue; /* the block that holds them all */
        count++;
        if (!other || !(by_numbers ? same_numbers : same_bytes)(t, other)) {
            fprintf(stderr, "%s (%s) differs\n", t->name, ggml_type_name(t->type));
            different++;
        }
    }
    printf("%d %d\n", count, different);
    return 0;
}

int main(int argc, char **argv)
{
    llama_log_set(stay_quiet, NULL);
    if (argc == 6 && strcmp(argv[1], "quantise") == 0)
        return quantise(argv + 2);
    if (argc == 4 && strcmp(argv[1], "bytes") == 0)
        return compare(argv + 2, 0);
    if (argc == 4 && strcmp(argv[1], "numbers") == 0)
        return compare(argv + 2, 1);
    return 2;
}
