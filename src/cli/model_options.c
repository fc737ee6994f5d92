#include "cli/model_options.h"

#include <string.h>

void kvsi_model_set_defaults(kvs_model_config *config, kvsi_body body)
{
    kvsi_induction_config induction;

    kvsi_induction_config_init(&induction);
    kvsi_model_config_init(config);
    kvsi_model_config_set_body(config, body);
    config->vocab = induction.vocab;
    config->context = 0;
    config->shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
}

static const char *text_of(const kvsi_parsed_options *parsed, const kvsi_command_options *command,
                           const char *option)
{
    return kvsi_option_text(parsed, kvsi_command_index(command, option));
}

kvs_status kvsi_model_start(kvs_model_config *config, kvs_train_config *train,
                            const kvsi_parsed_options *parsed, const kvsi_command_options *command,
                            const char *preset, kvs_err *err)
{
    const char *const start = text_of(parsed, command, preset);
    const char *const body_text = text_of(parsed, command, "body");
    kvsi_shift_config shift;
    kvsi_body body = KVSI_BODY_LLAMA;

    if (body_text && kvsi_body_parse(&body, body_text, NULL) != KVS_OK)
        body = KVSI_BODY_LLAMA; /* applying the options will fail */
    kvsi_model_set_defaults(config, body);
    if (!start)
        return KVS_OK;
    shift = config->shift;
    if (strchr(start, '/') || strstr(start, ".json")) {
        TRY(kvsi_model_config_load(config, start, err));
    } else {
        TRY(kvsi_model_config_preset(config, start, err));
        if (train)
            TRY(kvsi_train_config_preset(train, start, err));
        config->shift = shift;
    }
    /* The body decides the defaults of everything else. */
    if (body_text && body != config->body)
        return kvsi_fail(err, KVS_E_INVALID, "option '--body' is %s, but '%s' has %s", body_text,
                         start, kvsi_body_name(config->body));
    return KVS_OK;
}

/* From now on the option counts as given, by the source of the option that implies it. */
static void imply(kvsi_parsed_options *parsed, size_t option, size_t by)
{
    parsed->source[option] = parsed->source[by];
    parsed->line[option] = parsed->line[by];
}

static kvs_status apply_shift_alias(kvs_model_config *config, kvsi_parsed_options *parsed,
                                    const kvsi_command_options *command, kvs_err *err)
{
    const size_t shift = kvsi_command_index(command, "shift");
    const size_t form = kvsi_command_index(command, "shift-form");
    const kvsi_setting row = kvsi_command_row(command, shift);
    const char *const text = kvsi_option_text(parsed, shift);
    const kvsi_alias *alias = text ? kvsi_setting_alias(&row, text) : NULL;

    if (!alias)
        return KVS_OK;
    if (kvsi_option_is_given(parsed, form) && (int)config->shift.form != alias->also_value)
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--shift-form' is %s, but '--shift %s' means form %s",
                         kvsi_shift_form_name(config->shift.form), alias->name,
                         kvsi_shift_form_name((kvsi_shift_form)alias->also_value));
    config->shift.form = (kvsi_shift_form)alias->also_value;
    imply(parsed, form, shift);
    return KVS_OK;
}

kvs_status kvsi_model_finish(kvs_model_config *config, double dropout, kvsi_parsed_options *parsed,
                             const kvsi_command_options *command, kvs_err *err)
{
    const struct {
        const char *option;
        double *value;
    } places[] = {
        {"dropout-embedding", &config->dropout_embedding},
        {"dropout-attention", &config->dropout_attention},
        {"dropout-residual", &config->dropout_residual},
    };
    const size_t by = kvsi_command_index(command, "dropout");

    TRY(apply_shift_alias(config, parsed, command, err));
    for (size_t i = 0; kvsi_option_is_given(parsed, by) && i < 3; i++) {
        const size_t option = kvsi_command_index(command, places[i].option);

        if (kvsi_option_is_given(parsed, option))
            continue;
        *places[i].value = dropout;
        imply(parsed, option, by);
    }
    return KVS_OK;
}
