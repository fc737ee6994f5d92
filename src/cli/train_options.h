/* cli/train_options.h - the options of 'kvshift train' and their values. */
#ifndef KVSI_CLI_TRAIN_OPTIONS_H
#define KVSI_CLI_TRAIN_OPTIONS_H

#include "cli/configs.h"
#include "cli/default_out.h"

typedef struct kvsi_train_options {
    kvs_model_config *model; /* this and the next two are owned: kvsi_options_free_configs */
    kvs_train_config *train;
    kvs_task_config *tasks[KVSI_TASKS_MAX]; /* tasks[i] configures kvs_task_name(i), or is NULL */

    const char *preset;
    double dropout;
    const char *task, *data, *valid_data, *igsm_tokenizer;
    const char *tokenizer, *chat_template, *too_long; /* of a text file as data */
    size_t sequence_tokens;                           /* 0 = the context */
    double epochs;                                    /* 0 = as many as the steps make */
    const char *sample_prompt;
    size_t sample_tokens;
    double sample_temp;
    const char *eval_tasks, *eval_data;
    double rank_timeout; /* minutes, 0 = none */
    size_t threads;
    const char *cpu_level, *out, *init_from, *retrofit, *resume;
    size_t lora;       /* rank of adapters, 0 = none */
    double lora_alpha; /* 0 = the rank */
    const char *lora_on;
    double max_time; /* minutes, 0 = no limit */
    size_t show;
    int dry_run, profile, overcommit, new_tokenizer;
    int quiet, json;
    char default_out[KVSI_DEFAULT_OUT]; /* `out`, if no --out was given; otherwise "" */
} kvsi_train_options;

extern const kvsi_command_options kvsi_train_command;

/* Sets the defaults, with a model of that body; NULL = the default body.  The caller releases them
 * with kvsi_options_free_configs. */
kvs_status kvsi_train_set_defaults(kvsi_train_options *s, const char *body, kvs_err *err);

/* Applies the options to a kvsi_train_options, over the defaults of the body and the preset, or
 * over the settings of the run that is resumed.  Texts are borrowed from `parsed`. */
kvs_status kvsi_train_options_apply(void *settings, kvsi_parsed_options *parsed, kvs_err *err);
/* Returns whether the run learns the task of that name, and not a text. */
int kvsi_train_is_task(const kvsi_train_options *s, const char *name);
/* Returns the configuration of the task s->task. */
const kvs_task_config *kvsi_train_task(const kvsi_train_options *s);
/* Returns whether --data is a text file, and not a corpus or a file of ids. */
int kvsi_train_is_text_file(const kvsi_train_options *s);
/* Returns whether every token of conversations has a loss. */
int kvsi_train_has_loss_everywhere(const kvsi_train_options *s);
/* Returns whether the option was given for this start, and not by the run that is resumed. */
int kvsi_train_is_given_now(const kvsi_parsed_options *parsed, const char *option);
/* Returns whether any option names a task or a text. */
int kvsi_train_names_task(const kvsi_train_options *s, const kvsi_parsed_options *parsed);

/* Fails if a model option was given with another value than the model of s->init_from has. */
kvs_status kvsi_train_check_agreement(const kvsi_train_options *s,
                                      const kvsi_parsed_options *parsed,
                                      const kvs_model_config *loaded, kvs_err *err);
/* Fails if the option has another value in `other`, which "OWNER 'PATH'" has.  An automatic value
 * agrees with every other. */
kvs_status kvsi_train_compare(const kvsi_setting *row, const kvsi_train_options *given,
                              const kvsi_train_options *other, const char *owner, const char *path,
                              kvs_err *err);

/* Marks the values that the setup of the run has changed; `before` has the values before it. */
void kvsi_train_mark_sources(const kvsi_train_options *s, const kvsi_train_options *before,
                             kvsi_parsed_options *parsed);

int kvsi_is_model_option(const kvsi_setting *row);
int kvsi_train_is_given(const kvsi_parsed_options *parsed, const char *option);

#endif
