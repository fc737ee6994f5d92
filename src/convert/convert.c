/* Conversion between formats: options, checks and the sequence of steps. */
#include "convert/convert.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/sized.h"
#include "base/utf8.h"
#include "convert/companions.h"
#include "formats/llama2c.h"
#include "parallel/threads.h"
#include "tokenizer/tokenizer_files.h"

#include <string.h>
#include <sys/stat.h>

static const uint64_t SHARD_BYTES = 5000000000;

/* ---- options --------------------------------------------------------------------------------- */

static const kvs_convert_options defaults = {
    .size = sizeof defaults, .seed = 1, .shard_bytes = SHARD_BYTES};

void kvs_convert_options_init(kvs_convert_options *options, size_t size)
{
    kvsi_sized_init(options, size, &defaults, sizeof defaults);
}

void kvsi_convert_request_init(kvsi_convert_request *request)
{
    *request = (kvsi_convert_request){.how = defaults};
}

static kvs_format choose_format(const kvsi_convert_request *o)
{
    if (o->how.format != KVS_FORMAT_AUTO)
        return o->how.format;
    if (kvsi_ends_with(o->out, ".gguf"))
        return KVS_FORMAT_GGUF;
    return kvsi_ends_with(o->out, ".bin") ? KVS_FORMAT_LLAMA2C : KVS_FORMAT_HF;
}

static int is_same_file(const char *a, const char *b)
{
    struct stat one, other;

    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* Checks that the output does not overwrite the input, or anything without `overwrite`. */
static kvs_status check_place(const kvsi_convert_request *o, kvs_format format, kvs_err *err)
{
    char *parent = o->in ? kvsi_path_parent(o->in) : NULL;
    struct stat info;
    kvs_status st = KVS_OK;

    if (o->in && !parent)
        st = kvsi_no_memory(err, "'%s'", o->in);
    else if (o->in && (is_same_file(o->in, o->out) || is_same_file(parent, o->out)))
        st = kvsi_fail(err, KVS_E_INVALID, "'%s' is the input", o->out);
    else if (format != KVS_FORMAT_HF && stat(o->out, &info) == 0) {
        if (S_ISDIR(info.st_mode))
            st = kvsi_fail(err, KVS_E_INVALID, "'%s' is a folder, but format %s is one file",
                           o->out, kvs_format_name(format));
        else if (!o->how.overwrite)
            st = kvsi_fail(err, KVS_E_EXISTS, "'%s' already exists", o->out);
    }
    kvsi_free(parent);
    return st;
}

/* Whether the format supports the type. */
static kvs_status check_dtype(kvs_dtype dtype, kvs_format format, kvs_err *err)
{
    const int llama2c = format == KVS_FORMAT_LLAMA2C || format == KVS_FORMAT_LLAMA2C_V1;
    const int blocks = dtype == KVS_DTYPE_Q8_0 || dtype == KVS_DTYPE_Q4_0;

    if (llama2c && dtype != KVS_DTYPE_KEEP && dtype != KVS_DTYPE_F32)
        return kvsi_fail(err, KVS_E_INVALID, "dtype is %s, but format %s has f32 only",
                         kvs_dtype_name(dtype), kvs_format_name(format));
    if (format == KVS_FORMAT_HF && blocks)
        return kvsi_fail(err, KVS_E_INVALID,
                         "dtype is %s, but format hf has f32, f16 and bf16 only",
                         kvs_dtype_name(dtype));
    return KVS_OK;
}

static kvs_status check_options(const kvsi_convert_request *o, kvs_format format, kvs_err *err)
{
    const int llama2c = format == KVS_FORMAT_LLAMA2C || format == KVS_FORMAT_LLAMA2C_V1;

    if (!o->in && !o->how.config)
        return kvsi_fail(err, KVS_E_INVALID, "there is neither an input nor a configuration");
    if (o->in && o->how.config)
        return kvsi_fail(err, KVS_E_INVALID,
                         "the configuration is for random weights, but there is an input '%s'",
                         o->in);
    if (o->how.threads < 0 || o->how.threads > KVSI_THREADS_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "threads is %d, expected 0 (all cores) to %d",
                         o->how.threads, KVSI_THREADS_MAX);
    if (!kvs_format_name(o->how.format) || !kvs_dtype_name(o->how.dtype))
        return kvsi_fail(err, KVS_E_INVALID, "unknown format %d or dtype %d", (int)o->how.format,
                         (int)o->how.dtype);
    if (o->how.shard_bytes == 0)
        return kvsi_fail(err, KVS_E_INVALID, "shards of 0 bytes, expected at least 1");
    if (llama2c && o->how.tokenizer && strcmp(o->how.tokenizer, "none") != 0)
        return kvsi_fail(err, KVS_E_INVALID, "format %s does not support a tokenizer",
                         kvs_format_name(format));
    TRY(check_dtype(o->how.dtype, format, err));
    return check_place(o, format, err);
}

/* ---- the tokenizer --------------------------------------------------------------------------- */

/* Sets the folder of an input in Hugging Face's layout. */
static kvs_status find_folder(kvsi_conversion *c, kvs_err *err)
{
    const char *in = c->request->in;

    if (kvsi_weights_get_format(c->source.weights) != KVSI_FORMAT_HF &&
        kvsi_weights_get_format(c->source.weights) != KVSI_FORMAT_BAICHUAN)
        return KVS_OK;
    c->folder = in;
    if (!kvsi_is_folder(in))
        c->folder = c->parent = kvsi_path_parent(in);
    return c->folder ? KVS_OK : kvsi_no_memory(err, "'%s'", in);
}

/* The path of the input's own tokenizer; NULL = none. */
static kvs_status find_tokenizer(const char **path, const kvsi_conversion *c, kvs_err *err)
{
    const char *in = c->request->in;
    int found = 0;

    *path = NULL;
    if (c->folder) {
        *path = kvsi_folder_has_tokenizer(c->folder) ? c->folder : NULL;
    } else if (kvsi_weights_get_format(c->source.weights) == KVSI_FORMAT_GGUF) {
        TRY(kvsi_gguf_has_tokenizer(&found, in, err));
        *path = found ? in : NULL;
    }
    return KVS_OK;
}

/* The chat template of a GGUF file, in fresh memory. */
static kvs_status read_gguf_template(char **out, const char *path, kvs_err *err)
{
    static const char key[] = "tokenizer.chat_template";
    kvsi_gguf *file = NULL;
    const char *text = NULL;
    size_t size = 0;
    kvs_status st;

    TRY_OUT(kvsi_gguf_open(&file, path, err));
    TRY_OUT(kvsi_gguf_get_text(&text, &size, file, key, err));
    if (!text)
        goto out;
    *out = kvsi_alloc(size + 1, 1);
    if (!*out)
        st = kvsi_no_memory(err, "'%s'", path);
    else if (memchr(text, '\0', size) || kvsi_utf8_valid(text, size) < size)
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s' is not valid UTF-8", path, key);
    else
        memcpy(*out, text, size);
out:
    kvsi_gguf_close(file);
    return st;
}

/* Reads what the input's files contain beside the weights. */
static kvs_status find_ids(kvsi_conversion *c, kvs_err *err)
{
    const char *tokenizer = c->request->how.tokenizer;
    const kvsi_token_ids none = KVSI_NO_TOKEN_IDS;

    c->ids = none;
    if (!c->source.weights)
        return KVS_OK;
    c->keeps_ids = !tokenizer || strcmp(tokenizer, "none") == 0;
    if (c->keeps_ids)
        c->ids = *kvsi_weights_token_ids(c->source.weights);
    return find_folder(c, err);
}

static kvs_status load_tokenizer(kvsi_conversion *c, kvs_err *err)
{
    const char *path = c->request->how.tokenizer;

    if (path && strcmp(path, "none") == 0)
        return KVS_OK;
    if (!path && c->source.weights) {
        TRY(find_tokenizer(&path, c, err));
        c->keeps_tokenizer = path != NULL;
    }
    if (!path)
        return KVS_OK;
    TRY(kvs_tokenizer_load(&c->tokenizer, path, err));
    if (c->keeps_tokenizer)
        TRY(c->folder ? kvsi_read_chat_template(&c->chat_template, c->folder, err)
                      : read_gguf_template(&c->chat_template, path, err));
    if (kvs_tokenizer_vocab(c->tokenizer) > c->source.config.vocab)
        return kvsi_fail(err, KVS_E_INVALID, "the tokenizer has %zu tokens, the model %zu",
                         kvs_tokenizer_vocab(c->tokenizer), c->source.config.vocab);
    return KVS_OK;
}

/* ---- conversion ------------------------------------------------------------------------------ */

static kvs_status convert_to_gguf(kvsi_conversion *c, kvsi_gguf_architecture architecture,
                                  kvs_err *err)
{
    const kvsi_tensor_source tensors = kvsi_convert_tensors(&c->source);
    kvsi_gguf_tokenizer words = {0};
    const kvsi_gguf_extras extras = {.vocabulary = c->tokenizer ? &words.vocabulary : NULL,
                                     .ids = &c->ids,
                                     .chat_template = c->chat_template};
    kvs_status st = KVS_OK;

    if (c->tokenizer)
        TRY_OUT(kvsi_tokenizer_to_gguf(&words, c->tokenizer, err));
    TRY_OUT(kvsi_gguf_write_model(c->request->out, &c->source.config, architecture, &extras,
                                  &tensors, err));
out:
    kvsi_gguf_tokenizer_release(&words);
    return st;
}

static kvs_status convert_to_llama2c(kvsi_conversion *c, int v1, kvs_err *err)
{
    const kvsi_tensor_source tensors = kvsi_convert_tensors(&c->source);

    return kvsi_llama2c_write(c->request->out, &c->source.config, v1, &tensors, err);
}

static kvs_status write_output(kvsi_conversion *c, kvs_format format, kvs_err *err)
{
    switch (format) {
    case KVS_FORMAT_GGUF:
        return convert_to_gguf(c, KVSI_GGUF_ANY, err);
    case KVS_FORMAT_GGUF_LLAMA:
        return convert_to_gguf(c, KVSI_GGUF_LLAMA, err);
    case KVS_FORMAT_LLAMA2C:
        return convert_to_llama2c(c, 0, err);
    case KVS_FORMAT_LLAMA2C_V1:
        return convert_to_llama2c(c, 1, err);
    case KVS_FORMAT_AUTO: /* resolved before */
    case KVS_FORMAT_HF:
        break;
    }
    return kvsi_convert_to_hf(c, err);
}

/* Resolves a folder of adapters: the input is the model that they belong to. */
static kvs_status find_base(kvsi_convert_request *settled, char **base, kvs_err *err)
{
    const kvs_convert_options *how = &settled->how;

    if (!how->merge && how->base)
        return kvsi_fail(err, KVS_E_INVALID, "a base is given, but nothing is merged");
    if (!settled->in && (how->merge || how->shift))
        return kvsi_fail(err, KVS_E_INVALID, "random weights have %s",
                         how->merge ? "no adapters to merge" : "a shift by their configuration");
    if (!how->merge && settled->in && kvsi_is_adapter(settled->in))
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s' has low-rank adapters and no model: 'convert --merge' merges them "
                         "into their model",
                         settled->in);
    if (!how->merge || (!how->base && !kvsi_is_adapter(settled->in)))
        return KVS_OK;
    settled->adapter = settled->in;
    if (!how->base)
        TRY(kvsi_adapter_base(base, settled->in, err));
    settled->in = how->base ? how->base : *base;
    if (!settled->in)
        return kvsi_fail(err, KVS_E_INVALID, "'%s' does not name its model, expected a base",
                         settled->adapter);
    if (*base && !kvsi_file_exists(*base))
        return kvsi_fail(err, KVS_E_IO,
                         "'%s' names the model '%s', which is not there; expected a "
                         "base",
                         settled->adapter, *base);
    return KVS_OK;
}

kvs_status kvsi_convert(const kvsi_convert_request *request, kvs_err *err)
{
    const kvs_format format = choose_format(request);
    const int llama2c = format == KVS_FORMAT_LLAMA2C || format == KVS_FORMAT_LLAMA2C_V1;
    kvsi_convert_request settled = *request;
    kvsi_conversion c = {.request = &settled};
    kvs_status st;

    TRY_OUT(find_base(&settled, &c.base, err));
    TRY_OUT(check_options(&settled, format, err));
    if (llama2c) {
        settled.how.dtype = KVS_DTYPE_F32;
        settled.how.tokenizer = "none"; /* the input's own tokenizer is left out */
    }
    TRY_OUT(kvsi_convert_source_init(&c.source, &settled, err));
    TRY_OUT(find_ids(&c, err));
    TRY_OUT(load_tokenizer(&c, err));
    kvsi_convert_report_types(&c.source);
    TRY_OUT(write_output(&c, format, err));
out:
    kvs_tokenizer_free(c.tokenizer);
    kvsi_free(c.parent);
    kvsi_free(c.base);
    kvsi_free(c.chat_template);
    kvsi_convert_source_release(&c.source);
    return st;
}

kvs_status kvs_convert(const char *out, const char *in, const kvs_convert_options *options,
                       kvs_err *err)
{
    kvsi_convert_request request = {.in = in, .out = out, .how = defaults};

    NEED(out);
    TRY(kvsi_sized_read(&request.how, sizeof request.how, options, "kvs_convert_options", err));
    return kvsi_convert(&request, err);
}
