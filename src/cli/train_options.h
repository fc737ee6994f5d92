/* cli/train_options.h - the options of 'kvshift train', and what they add up to.
 *
 * The options of the group "Model" describe a model completely, so that 'kvshift inspect' speaks of
 * models in the same words. */
#ifndef KVSI_CLI_TRAIN_OPTIONS_H
#define KVSI_CLI_TRAIN_OPTIONS_H

#include "base/options.h"

typedef struct kvsi_train_settings {
    kvs_model_config model;
    kvs_induction_config induction;
    kvs_ngram_config ngram;
    kvs_hopk_config hopk;
    kvs_igsm_config igsm; /* its tokenizer is `igsm_tokenizer`, yet to be loaded */
    kvs_train_config train;
    /* Choices by name, and lists, as they were given; settled into the configurations above. */
    const char *body, *shift, *shift_form, *shift_init, *positions, *head;
    const char *task, *data, *valid_data, *sampler, *loss, *schedule, *shard;
    kvsi_number_list only_hops; /* one number at most */
    const char *igsm_mode, *igsm_wording, *igsm_tokenizer;
    kvsi_number_list slopes, sliding_layers;
    double dropout;
    const char *cpu_level, *out, *init_from, *retrofit;
    size_t threads, eval_sequences;
    uint64_t eval_every;
    uint64_t checkpoint_every;
    size_t keep;
    uint64_t sample_every;
    const char *sample_prompt;
    size_t sample_tokens;
    double sample_temp;
    double max_time; /* minutes, 0 = no limit */
    const char *resume, *preset;
    size_t show;
    double rank_timeout; /* minutes, 0 = none */
    int dry_run, profile, overcommit, new_tokenizer;
    int quiet, json;
} kvsi_train_settings;

extern const kvsi_command_options kvsi_train_command;

/* Sets the defaults for a model of that body. */
void kvsi_train_set_defaults(kvsi_train_settings *s, kvs_body body);

/* Reads the command line; on --help, which parsed->help tells, settings are the defaults.  After
 * success kvsi_options_release(parsed) ends the life of texts in them. */
kvs_status kvsi_train_settings_parse(kvsi_train_settings *s, kvsi_parsed_options *parsed, int argc,
                                     char **argv, kvs_err *err);
/* "induction", "ngram", "hopk" or "igsm" is what is learned, where that is no text. */
int kvsi_train_is_task(const kvsi_train_settings *s, const char *name);
/* Does anything say what is to be learned? */
int kvsi_train_names_task(const kvsi_train_settings *s, const kvsi_parsed_options *parsed);

/* The settings that say what `config` says; what is no model option is left alone. */
void kvsi_train_settings_from_model(kvsi_train_settings *s, const kvs_model_config *config);
/* Every model option that was given must say what the model loaded from s->init_from is. */
kvs_status kvsi_train_check_agreement(const kvsi_train_settings *s,
                                      const kvsi_parsed_options *parsed,
                                      const kvs_model_config *loaded, kvs_err *err);

/* Another command may describe a new model in the same words: its table starts with the first
 * kvsi_model_option_count() options of this one, of which the very first, the preset, may have
 * another name; its settings start with a kvsi_train_settings. */
size_t kvsi_model_option_count(void);
enum { KVSI_OPTIONS_BESIDE_MODEL = 16 }; /* it may have so many of its own */
kvs_status kvsi_model_settings_parse(kvsi_train_settings *s, kvsi_parsed_options *parsed,
                                     const kvsi_command_options *command, int argc, char **argv,
                                     kvs_err *err);

/* Says of every value that will only be known once the run starts, or that comes with the model of
 * s->init_from, that it is so; the latter are read from there. */
kvs_status kvsi_train_look_ahead(kvsi_train_settings *s, kvsi_parsed_options *parsed, kvs_err *err);
/* The same of settings with which a run was made ready: `before` is what they were. */
kvs_status kvsi_train_mark_sources(const kvsi_train_settings *s, const kvsi_train_settings *before,
                                   kvsi_parsed_options *parsed, kvs_err *err);

int kvsi_is_model_option(const kvsi_option *option);
int kvsi_train_is_given(const kvsi_parsed_options *parsed, const char *option);

#endif
