/* 'kvshift config presets': the models that --model knows by name, and how they are trained. */
#include "base/text.h"
#include "cli/cli.h"
#include "kvshift/kvshift_lab.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct presets_settings {
    int json;
} presets_settings;

static const kvsi_setting rows[] = {
    {.name = "json",
     .kind = KVSI_SETTING_FLAG,
     .offset = offsetof(presets_settings, json),
     .group = "Options",
     .help = "print one JSON object"},
};

static const kvsi_command_options options = {
    .command = "kvshift config presets",
    .purpose =
        "Prints the models that --model knows by name, with the settings that train them and "
        "the memory for weights, gradients and the optimizer.  A rank also needs memory for "
        "its pass: 'kvshift train --model NAME --dry-run' prints it.  The time is that of all "
        "steps on this machine, estimated from the speed of its matrix products.",
    .examples = "  kvshift config presets\n"
                "  kvshift train --data corpora/book --model desk-1m --out runs/book\n",
    .tables = KVSI_OPTIONS(rows),
};

/* Settings of the model and of training that are columns. */
static const struct {
    const char *name, *key, *title; /* key: in JSON */
    int width;
} model_columns[] =
    {
        {"layers", "layers", "layers", 6},    {"dim", "dim", "dim", 5},
        {"heads", "heads", "heads", 5},       {"kv-heads", "kv_heads", "kv", 3},
        {"context", "context", "context", 7}, {"vocab", "vocab", "vocab", 6},
},
  train_columns[] = {
      {"batch", "batch", "batch", 5},
      {"steps", "steps", "steps", 6},
};

enum {
    MODEL_COLUMNS = sizeof model_columns / sizeof *model_columns,
    TRAIN_COLUMNS = sizeof train_columns / sizeof *train_columns,
    NUMBER_SIZE = 32
};

/* One preset, and what follows from its settings. */
typedef struct preset {
    const char *name;
    double model[MODEL_COLUMNS], train[TRAIN_COLUMNS];
    double lr, tokens; /* tokens: of all steps */
    double seconds;    /* estimated, on this machine when idle */
    kvs_model_sizes sizes;
} preset;

static kvs_status read_preset(preset *out, const char *name, const kvs_runtime *rt, kvs_err *err)
{
    kvs_model_config *model = NULL;
    kvs_train_config *train = NULL;
    kvs_plan plan;
    kvs_status st;

    out->name = name;
    TRY_OUT(kvs_model_config_create(&model, name, err));
    TRY_OUT(kvs_train_config_create(&train, name, err));
    TRY_OUT(kvs_model_config_finish(model, err));
    TRY_OUT(kvs_model_config_sizes(&out->sizes, model, err));
    TRY_OUT(kvs_train_plan(&plan, rt, model, NULL, train, err));
    for (size_t i = 0; i < MODEL_COLUMNS; i++)
        out->model[i] = kvs_model_config_number(model, model_columns[i].name);
    for (size_t i = 0; i < TRAIN_COLUMNS; i++)
        out->train[i] = kvs_train_config_number(train, train_columns[i].name);
    out->lr = kvs_train_config_number(train, "lr");
    out->tokens = kvs_model_config_number(model, "context") *
                  kvs_train_config_number(train, "batch") * kvs_train_config_number(train, "steps");
    out->seconds = kvs_train_seconds(&plan, model, train, kvs_train_config_number(train, "steps"),
                                     kvs_train_peak(rt, train));
out:
    kvs_model_config_free(model);
    kvs_train_config_free(train);
    return st;
}

static void print_titles(void)
{
    printf("%-11s %6s", "preset", "params");
    for (size_t i = 0; i < MODEL_COLUMNS; i++)
        printf(" %*s", model_columns[i].width, model_columns[i].title);
    for (size_t i = 0; i < TRAIN_COLUMNS; i++)
        printf(" %*s", train_columns[i].width, train_columns[i].title);
    printf(" %7s %7s %7s  %s\n", "tokens", "lr", "memory", "time here");
}

static void print_preset(const preset *p)
{
    char parameters[NUMBER_SIZE], tokens[NUMBER_SIZE], bytes[NUMBER_SIZE], time[NUMBER_SIZE];

    kvsi_format_duration(time, sizeof time, p->seconds);
    kvsi_format_count(parameters, sizeof parameters, (double)p->sizes.parameters);
    kvsi_format_count(tokens, sizeof tokens, p->tokens);
    kvsi_format_count(bytes, sizeof bytes, (double)p->sizes.training_bytes);
    printf("%-11s %6s", p->name, parameters);
    for (size_t i = 0; i < MODEL_COLUMNS; i++)
        printf(" %*.0f", model_columns[i].width, p->model[i]);
    for (size_t i = 0; i < TRAIN_COLUMNS; i++)
        printf(" %*.0f", train_columns[i].width, p->train[i]);
    printf(" %7s %7g %6sB  %s\n", tokens, p->lr, bytes, time);
}

static json_t *preset_json(const preset *p)
{
    json_t *object =
        json_pack("{s:s, s:I, s:I, s:f, s:I, s:f}", "name", p->name, "parameters",
                  (json_int_t)p->sizes.parameters, "tokens", (json_int_t)p->tokens, "lr", p->lr,
                  "training_bytes", (json_int_t)p->sizes.training_bytes, "seconds", p->seconds);

    for (size_t i = 0; i < MODEL_COLUMNS; i++)
        json_object_set_new(object, model_columns[i].key, json_integer((json_int_t)p->model[i]));
    for (size_t i = 0; i < TRAIN_COLUMNS; i++)
        json_object_set_new(object, train_columns[i].key, json_integer((json_int_t)p->train[i]));
    return object;
}

static kvs_status print_presets(void *settings, const kvsi_call *call, kvs_err *err)
{
    const presets_settings *s = settings;
    json_t *list = NULL;
    kvs_runtime *rt = NULL;
    const char *name;
    kvs_status st;

    (void)call;
    TRY_OUT(kvs_runtime_create(&rt, NULL, err));
    list = s->json ? json_array() : NULL;
    if (!s->json)
        print_titles();
    for (size_t i = 0; (name = kvs_preset_name(i)) != NULL; i++) {
        preset p;

        TRY_OUT(read_preset(&p, name, rt, err));
        if (s->json)
            json_array_append_new(list, preset_json(&p));
        else
            print_preset(&p);
    }
    if (s->json) {
        st = kvsi_cli_print_json(json_pack("{s:o}", "presets", list), err);
        list = NULL;
    }
out:
    json_decref(list);
    kvs_runtime_free(rt);
    return st;
}

const kvsi_command kvsi_config_presets = {
    .name = "presets",
    .summary = "print the models that --model knows by name",
    .options = &options,
    .settings_size = sizeof(presets_settings),
    .run = print_presets,
};
