/* First steps with kvshift: train a one-layer model with KV shifting on the induction task, then
 * ask it what follows "A B C A".  Takes a second or two. */
#include <kvshift/kvshift_lab.h>
#include <stdio.h>

enum { FIRST_LETTER = 11, LETTERS = 26, VOCAB = FIRST_LETTER + LETTERS, STEPS = 60 };

static kvs_status create_model(kvs_model **model, kvs_runtime *runtime, kvs_err *err)
{
    static const struct {
        const char *name, *value;
    } settings[] = {{"vocab", "37"}, {"dim", "64"},     {"layers", "1"},
                    {"heads", "4"},  {"context", "32"}, {"shift", "kv"}};
    kvs_model_config *config = NULL;
    kvs_status status = kvs_model_config_create(&config, NULL, err);

    for (size_t i = 0; status == KVS_OK && i < sizeof settings / sizeof *settings; i++)
        status = kvs_model_config_set(config, settings[i].name, settings[i].value, err);
    if (status == KVS_OK)
        status = kvs_model_create(model, runtime, config, 1, err);
    kvs_model_config_free(config);
    return status;
}

/* Creates data of sequences "... A B ... A", after which B is expected.  The ids of the letters
 * start at FIRST_LETTER. */
static kvs_status create_data(kvs_data **data, kvs_err *err)
{
    kvs_task_options options;
    kvs_task_config *config = NULL;
    kvs_status status = kvs_task_config_create(&config, "induction", err);

    kvs_task_options_init(&options, sizeof options);
    options.vocab = VOCAB;
    if (status == KVS_OK)
        status = kvs_task_config_set_number(config, "pool", LETTERS, err);
    if (status == KVS_OK)
        status = kvs_task_config_set_number(config, "max-length", 32, err);
    if (status == KVS_OK)
        status = kvs_task_create(data, config, &options, err);
    kvs_task_config_free(config);
    return status;
}

static kvs_status create_trainer(kvs_trainer **trainer, kvs_model *model, const kvs_data *data,
                                 kvs_err *err)
{
    static const struct {
        const char *name;
        double value;
    } settings[] = {{"steps", STEPS}, {"warmup", 10}, {"batch", 256}, {"lr", 5e-3}};
    kvs_train_config *config = NULL;
    kvs_status status = kvs_train_config_create(&config, NULL, err);

    for (size_t i = 0; status == KVS_OK && i < sizeof settings / sizeof *settings; i++)
        status = kvs_train_config_set_number(config, settings[i].name, settings[i].value, err);
    if (status == KVS_OK)
        status = kvs_trainer_create(trainer, model, data, config, err);
    kvs_train_config_free(config);
    return status;
}

static kvs_status train(kvs_model *model, const kvs_data *data, kvs_err *err)
{
    kvs_evaluation evaluation = {.size = sizeof evaluation};
    kvs_trainer *trainer = NULL;
    kvs_status status = create_trainer(&trainer, model, data, err);

    for (int step = 1; status == KVS_OK && step <= STEPS; step++) {
        const kvs_step_record *record;

        status = kvs_trainer_step(&record, trainer, err);
        if (status == KVS_OK && step % 20 == 0)
            printf("step %d: loss %.3f\n", step, record->loss);
    }
    if (status == KVS_OK)
        status = kvs_trainer_evaluate(&evaluation, trainer, 1000, err);
    if (status == KVS_OK)
        printf("accuracy on new sequences: %.1f %%\n", 100 * evaluation.accuracy);
    kvs_trainer_free(trainer);
    return status;
}

static kvs_status ask(const kvs_model *model, kvs_err *err)
{
    const int32_t prompt[] = {FIRST_LETTER, FIRST_LETTER + 1, FIRST_LETTER + 2, FIRST_LETTER};
    float logits[VOCAB];
    kvs_session *session = NULL;
    kvs_status status = kvs_session_create(&session, model, NULL, err);

    if (status == KVS_OK)
        status = kvs_session_feed(session, prompt, sizeof prompt / sizeof *prompt, logits, err);
    if (status == KVS_OK)
        printf("A B C A -> %c\n", 'A' + kvs_logits_best(logits, VOCAB) - FIRST_LETTER);
    kvs_session_free(session);
    return status;
}

int main(void)
{
    kvs_runtime *runtime = NULL;
    kvs_model *model = NULL;
    kvs_data *data = NULL;
    kvs_err err;
    kvs_status status = kvs_runtime_create(&runtime, NULL, &err);

    if (status == KVS_OK)
        status = create_model(&model, runtime, &err);
    if (status == KVS_OK)
        status = create_data(&data, &err);
    if (status == KVS_OK)
        status = train(model, data, &err);
    if (status == KVS_OK)
        status = ask(model, &err);
    if (status != KVS_OK)
        fprintf(stderr, "first-steps: %s\n", err.message);
    kvs_data_free(data);
    kvs_model_free(model);
    kvs_runtime_free(runtime);
    return status == KVS_OK ? 0 : 1;
}
