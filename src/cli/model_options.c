#include "cli/model_options.h"

#include <string.h>

static const char *text_of(const kvsi_parsed_options *parsed, const kvsi_command_options *command,
                           const char *option)
{
    return kvsi_option_text(parsed, kvsi_command_index(command, option));
}

const char *kvsi_model_body(const kvsi_parsed_options *parsed, const kvsi_command_options *command)
{
    const kvsi_setting row = kvsi_command_row(command, kvsi_command_index(command, "body"));
    const char *body = text_of(parsed, command, row.name);

    return body && kvsi_setting_check_text(&row, row.name, body, NULL) == KVS_OK ? body : NULL;
}

/* Creates the model configuration of a preset, with the shift of `usual`.  Unless `train` is NULL,
 * replaces *train with the training configuration of the preset. */
static kvs_status take_preset(kvs_model_config **model, kvs_train_config **train,
                              const kvs_model_config *usual, const char *name, kvs_err *err)
{
    kvs_train_config *trained = NULL;
    kvs_status st;

    TRY(kvs_model_config_create(model, name, err));
    TRY(kvs_model_config_set(*model, "shift", kvsi_model_word(usual, "shift").text, err));
    if (!train)
        return KVS_OK;
    st = kvs_train_config_create(&trained, name, err);
    if (st == KVS_OK) {
        kvs_train_config_free(*train);
        *train = trained;
    }
    return st;
}

/* A configuration that was loaded is complete.  Without a window the heads of layers with one are
 * those of the others again, so that options can change these. */
static kvs_status forget_sliding_heads(kvs_model_config *config, kvs_err *err)
{
    static const char *const names[] = {"sliding-heads", "sliding-kv-heads"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (kvs_model_config_number(config, "sliding-window") == 0)
            TRY(kvs_model_config_set_number(config, names[i], 0, err));
    return KVS_OK;
}

kvs_status kvsi_model_start(kvs_model_config **config, kvs_train_config **train,
                            const kvsi_parsed_options *parsed, const kvsi_command_options *command,
                            const char *preset, kvs_err *err)
{
    const char *const start = text_of(parsed, command, preset);
    const char *const body = kvsi_model_body(parsed, command);
    kvs_model_config *started = NULL;
    kvs_status st;

    if (!start)
        return body ? kvs_model_config_set(*config, "body", body, err) : KVS_OK;
    if (strchr(start, '/') || strstr(start, ".json")) {
        TRY_OUT(kvs_model_config_load(&started, start, err));
        TRY_OUT(forget_sliding_heads(started, err));
    } else {
        TRY_OUT(take_preset(&started, train, *config, start, err));
    }
    /* The body decides the defaults of everything else. */
    if (body && !kvsi_model_is(started, "body", body)) {
        st = kvsi_fail(err, KVS_E_INVALID, "option '--body' is %s, but '%s' has %s", body, start,
                       kvsi_model_word(started, "body").text);
        goto out;
    }
    kvs_model_config_free(*config);
    *config = started;
    return KVS_OK;
out:
    kvs_model_config_free(started);
    return st;
}

/* Marks an option as given, with the source of the option that implies it. */
static void imply(kvsi_parsed_options *parsed, size_t option, size_t by)
{
    parsed->source[option] = parsed->source[by];
    parsed->line[option] = parsed->line[by];
}

/* Sets *form to the form that a value of --shift implies, such as "gate" for --shift gate; "" =
 * none. */
static kvs_status form_of_shift(kvsi_word *form, const char *shift, kvs_err *err)
{
    kvs_model_config *config = NULL;
    kvs_status st;

    *form = (kvsi_word){""};
    TRY_OUT(kvs_model_config_create(&config, NULL, err));
    TRY_OUT(kvs_model_config_set(config, "shift", shift, err));
    if (!kvsi_model_is(config, "shift", shift)) /* a short name: "gate" became "kv" */
        *form = kvsi_model_word(config, "shift-form");
out:
    kvs_model_config_free(config);
    return st;
}

/* Checks that --shift-form is the form that --shift implies, if both were given, and marks the form
 * as given.  Applying --shift has already set it. */
static kvs_status check_shift(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                              kvs_err *err)
{
    const size_t shift = kvsi_command_index(command, "shift");
    const size_t form = kvsi_command_index(command, "shift-form");
    const char *const text = kvsi_option_text(parsed, shift);
    const char *const given = kvsi_option_text(parsed, form);
    kvsi_word meant = {""};

    if (text)
        TRY(form_of_shift(&meant, text, err));
    if (!*meant.text)
        return KVS_OK;
    if (given && strcmp(given, meant.text) != 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--shift-form' is %s, but '--shift %s' means form %s", given, text,
                         meant.text);
    imply(parsed, form, shift);
    return KVS_OK;
}

kvs_status kvsi_model_finish(kvs_model_config *config, double dropout, kvsi_parsed_options *parsed,
                             const kvsi_command_options *command, kvs_err *err)
{
    static const char *const places[] = {"dropout-embedding", "dropout-attention",
                                         "dropout-residual"};
    const size_t by = kvsi_command_index(command, "dropout");

    TRY(check_shift(parsed, command, err));
    for (size_t i = 0; kvsi_option_is_given(parsed, by) && i < 3; i++) {
        const size_t option = kvsi_command_index(command, places[i]);

        if (kvsi_option_is_given(parsed, option))
            continue;
        TRY(kvs_model_config_set_number(config, places[i], dropout, err));
        imply(parsed, option, by);
    }
    return KVS_OK;
}

const char *const kvsi_retrofit_names[] = {"k", "v", "kv", "qkv", NULL};

kvs_status kvsi_model_set_retrofit(kvs_model_config *config, const char *targets, kvs_err *err)
{
    TRY(kvs_model_config_set(config, "shift", targets, err));
    TRY(kvs_model_config_set(config, "shift-form", "free", err));
    TRY(kvs_model_config_set(config, "shift-init", "identity", err));
    return kvs_model_config_set_number(config, "shift-window", 1, err);
}
