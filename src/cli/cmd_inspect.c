/* kvshift inspect: configuration, memory and shift coefficients of a model; checks its files. */
#include "cli/cli.h"
#include "cli/coefficients.h"
#include "cli/configs.h"
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct inspect_settings {
    int check, json;
} inspect_settings;

static const kvsi_setting rows[] = {
    {.name = "check",
     .kind = KVSI_SETTING_FLAG,
     .offset = offsetof(inspect_settings, check),
     .group = "Options",
     .help = "read all weights: compare checksums, if any, and check that every value is finite"},
    {.name = "json",
     .kind = KVSI_SETTING_FLAG,
     .offset = offsetof(inspect_settings, json),
     .group = "Options",
     .help = "print one JSON object"},
};

static const kvsi_command_options options = {
    .command = "kvshift inspect",
    .examples = "  kvshift inspect runs/book\n"
                "  kvshift inspect --check model.gguf\n",
    .purpose = "Prints a model's format, its configuration (main settings and those that are not "
               "the default, named as in 'kvshift train'), the number of parameters, the memory it "
               "needs, and the coefficients of its shift.  MODEL is a folder with config.json and "
               "safetensors, one of these files, or a GGUF or llama2.c file.  A folder with only "
               "config.json gives everything except the coefficients.",
    .argument = "MODEL",
    .min_arguments = 1,
    .max_arguments = 1,
    .tables = KVSI_OPTIONS(rows),
};

/* ---- reading the model ----------------------------------------------------------------------- */

typedef struct inspection {
    const char *path;
    kvs_model_info info;
    int is_checked;
    kvs_model_check_result check;
    kvs_model_config *config;
    kvs_model_sizes sizes;
    int has_coefficients; /* the model has a shift and its weights exist */
    kvsi_coefficients coefficients;
} inspection;

static kvs_status read_coefficients(inspection *in, kvs_err *err)
{
    kvs_runtime *rt = NULL;
    kvs_model *model = NULL;
    kvs_load_options how;
    kvs_status st;

    kvs_load_options_init(&how, sizeof how);
    how.mapped = 1;
    TRY_OUT(kvs_runtime_create(&rt, NULL, err));
    TRY_OUT(kvs_model_load(&model, rt, in->path, &how, err));
    TRY_OUT(kvsi_coefficients_read(&in->coefficients, model, err));
    in->has_coefficients = 1;
out:
    kvs_model_free(model);
    kvs_runtime_free(rt);
    return st;
}

static kvs_status inspect(inspection *in, const char *path, int check, kvs_err *err)
{
    in->path = path;
    TRY(kvs_model_describe(&in->info, path, err));
    TRY(kvs_model_config_load(&in->config, path, err));
    TRY(kvs_model_config_sizes(&in->sizes, in->config, err));
    if (check) {
        TRY(kvs_model_check(&in->check, path, err));
        in->is_checked = 1;
    }
    if (in->info.tensors > 0 && kvsi_shift_targets(in->config) != 0)
        TRY(read_coefficients(in, err));
    return KVS_OK;
}

static uint64_t full_cache_bytes(const inspection *in)
{
    return in->sizes.cache_bytes_per_token * kvsi_model_count(in->config, "context") +
           in->sizes.shift_state_bytes;
}

/* ---- configuration --------------------------------------------------------------------------- */

static int is_essential(const char *name)
{
    static const char *const essentials[] = {"body",     "shift", "layers",  "dim",   "heads",
                                             "kv-heads", "ffn",   "context", "vocab", "positions"};

    for (size_t i = 0; i < sizeof essentials / sizeof *essentials; i++)
        if (strcmp(essentials[i], name) == 0)
            return 1;
    return 0;
}

/* Prints a setting if it is essential or differs from that of a plain model. */
static kvs_status print_setting(const kvsi_setting *row, kvs_model_config *const *config,
                                kvs_model_config *const *plain, kvs_err *err)
{
    kvsi_text value = {0};
    kvs_status st;

    if (!is_essential(row->name) && kvsi_setting_equal(row, config, plain))
        return KVS_OK;
    kvsi_setting_print(&value, row, config);
    TRY_OUT(kvsi_text_check(&value, err));
    printf("  %-22s%s\n", row->name, value.data);
out:
    kvsi_text_release(&value);
    return st;
}

/* Returns the row of model setting number `index`, whose settings are a kvs_model_config *.  Its
 * name is NULL past the end. */
static kvsi_setting row_at(size_t index)
{
    return kvsi_library_row(&kvsi_model_configs, 0, index, 0);
}

/* Clears the head counts of sliding layers if they equal those of the other layers, so that they
 * are not printed. */
static kvs_status hide_equal_heads(kvs_model_config *config, kvs_err *err)
{
    if (kvsi_model_count(config, "sliding-heads") != kvsi_model_count(config, "heads") ||
        kvsi_model_count(config, "sliding-kv-heads") != kvsi_model_count(config, "kv-heads"))
        return KVS_OK;
    TRY(kvs_model_config_set_number(config, "sliding-heads", 0, err));
    return kvs_model_config_set_number(config, "sliding-kv-heads", 0, err);
}

static kvs_status print_configuration(const kvs_model_config *config, kvs_err *err)
{
    kvs_model_config *shown = NULL, *plain = NULL;
    kvsi_setting row;
    kvs_status st;

    TRY_OUT(kvs_model_config_copy(&shown, config, err));
    TRY_OUT(kvs_model_config_create(&plain, NULL, err));
    TRY_OUT(kvs_model_config_set(plain, "body", kvsi_model_word(config, "body").text, err));
    TRY_OUT(hide_equal_heads(shown, err));
    printf("configuration\n");
    for (size_t i = 0; (row = row_at(i)).name; i++)
        TRY_OUT(print_setting(&row, &shown, &plain, err));
out:
    kvs_model_config_free(shown);
    kvs_model_config_free(plain);
    return st;
}

/* Every setting under the name of its option: --kv-heads is "kv_heads". */
static json_t *configuration_to_json(kvs_model_config *const *config)
{
    json_t *object = json_object();
    kvsi_setting row;

    for (size_t i = 0; (row = row_at(i)).name; i++) {
        char key[KVSI_SETTING_KEY];

        kvsi_setting_key(key, &row);
        json_object_set_new(object, key, kvsi_setting_to_json(&row, config));
    }
    return object;
}

/* ---- output ------------------------------------------------------------------------------- */

static void print_count(const char *label, uint64_t count)
{
    printf("  %-22s%" PRIu64 "\n", label, count);
}

static void print_bytes(const char *label, uint64_t bytes, const char *note)
{
    char text[32];

    kvsi_format_count(text, sizeof text, (double)bytes);
    printf("  %-22s%sB%s\n", label, text, note);
}

static void print_format(const inspection *in)
{
    const kvs_model_info *info = &in->info;
    char bytes[32];

    printf("model\n");
    printf("  %-22s%s\n", "format", info->format);
    if (info->tensors == 0)
        return;
    kvsi_format_count(bytes, sizeof bytes, (double)info->bytes);
    printf("  %-22s%zu, %s%s, %sB in %zu %s\n", "tensors", info->tensors,
           info->is_mixed ? "mostly " : "", info->dtype, bytes, info->files,
           info->files == 1 ? "file" : "files");
}

static void print_check(const kvs_model_check_result *check)
{
    printf("check: %zu tensors with %" PRIu64 " values, all finite; checksums: %s\n",
           check->tensors, check->values, check->has_checksums ? "correct" : "none");
}

static void print_sizes(const inspection *in)
{
    const kvs_model_sizes *sizes = &in->sizes;
    char note[64];

    printf("parameters\n");
    print_count("all", sizes->parameters);
    print_count("without embeddings", sizes->parameters - sizes->embedding_parameters);
    print_count("embeddings", sizes->embedding_parameters);
    printf("memory\n");
    print_bytes("weights", sizes->weight_bytes, "");
    print_bytes("cache per token", sizes->cache_bytes_per_token, "");
    print_bytes("shift state", sizes->shift_state_bytes, " per sequence");
    snprintf(note, sizeof note, " for %zu tokens, shift state included",
             kvsi_model_count(in->config, "context"));
    print_bytes("cache at full context", full_cache_bytes(in), note);
    print_bytes("training", sizes->training_bytes, " for weights, gradients and moments");
}

static kvs_status print_people(const inspection *in, kvs_err *err)
{
    kvs_status st;

    print_format(in);
    st = print_configuration(in->config, err);
    if (st != KVS_OK)
        return st;
    print_sizes(in);
    if (in->has_coefficients)
        kvsi_coefficients_print(&in->coefficients);
    else if (kvsi_shift_targets(in->config) != 0)
        printf("coefficients: unknown, no weights in '%s'\n", in->path);
    if (in->is_checked)
        print_check(&in->check);
    return KVS_OK;
}

static json_t *format_to_json(const kvs_model_info *info)
{
    json_t *dtype = info->dtype ? json_string(info->dtype) : json_null();

    return json_pack("{s:s, s:I, s:I, s:o, s:I}", "format", info->format, "files",
                     (json_int_t)info->files, "tensors", (json_int_t)info->tensors, "dtype", dtype,
                     "bytes", (json_int_t)info->bytes);
}

static json_t *check_to_json(const inspection *in)
{
    if (!in->is_checked)
        return json_null();
    return json_pack("{s:I, s:I, s:b}", "tensors", (json_int_t)in->check.tensors, "numbers",
                     (json_int_t)in->check.values, "has_checksums", in->check.has_checksums);
}

static kvs_status print_json(const inspection *in, kvs_err *err)
{
    const kvs_model_sizes *sizes = &in->sizes;
    json_t *coefficients =
        in->has_coefficients ? kvsi_coefficients_to_json(&in->coefficients) : json_null();
    /* clang-format off */
    json_t *parameters =
        json_pack("{s:I, s:I, s:I}",
                  "all", (json_int_t)sizes->parameters,
                  "without_embeddings",
                  (json_int_t)(sizes->parameters - sizes->embedding_parameters),
                  "embeddings", (json_int_t)sizes->embedding_parameters);
    json_t *memory =
        json_pack("{s:I, s:I, s:I, s:I, s:I}",
                  "weight_bytes", (json_int_t)sizes->weight_bytes,
                  "cache_bytes_per_token", (json_int_t)sizes->cache_bytes_per_token,
                  "shift_state_bytes", (json_int_t)sizes->shift_state_bytes,
                  "full_cache_bytes", (json_int_t)full_cache_bytes(in),
                  "training_bytes", (json_int_t)sizes->training_bytes);
    return kvsi_cli_print_json(
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}",
                  "model", format_to_json(&in->info),
                  "check", check_to_json(in),
                  "configuration", configuration_to_json(&in->config),
                  "parameters", parameters,
                  "memory", memory,
                  "coefficients", coefficients),
        err);
    /* clang-format on */
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    const inspect_settings *s = data;
    inspection in = {.info.size = sizeof in.info, .check.size = sizeof in.check};
    kvsi_waiting *waiting;
    kvs_status st;

    waiting = kvsi_waiting_start("reading the model");
    st = inspect(&in, call->parsed->arguments[0], s->check, err);
    kvsi_waiting_end(waiting);
    if (st != KVS_OK)
        goto out;
    TRY_OUT(s->json ? print_json(&in, err) : print_people(&in, err));
out:
    kvsi_coefficients_release(&in.coefficients);
    kvs_model_config_free(in.config);
    return st;
}

const kvsi_command kvsi_cmd_inspect = {
    .name = "inspect",
    .summary = "print what a model is, the memory it needs, and its shift coefficients",
    .options = &options,
    .settings_size = sizeof(inspect_settings),
    .run = run,
};
