/* First steps with kvshift: train a one-layer model with KV shifting on the induction task, then
 * ask it what follows "A B C A".  Takes a second or two. */
#include <kvshift/kvshift.h>
#include <stdio.h>

enum { FIRST_LETTER = 11, LETTERS = 26, STEPS = 60 }; /* the task's tokens start at 11 */

static kvs_status create_model(kvs_model **model, kvs_runtime *runtime, kvs_err *err)
{
    kvs_model_config config;

    kvsi_model_config_init(&config);
    config.vocab = FIRST_LETTER + LETTERS;
    config.dim = 64;
    config.layers = 1;
    config.heads = config.kv_heads = 4;
    config.context = 32;
    config.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    return kvs_model_create(model, runtime, &config, 1, err);
}

static kvs_status create_task(kvs_data **task, kvs_err *err)
{
    kvsi_induction_config config;

    kvsi_induction_config_init(&config);
    config.vocab = FIRST_LETTER + LETTERS;
    config.pool = LETTERS;
    config.max_length = 32;
    return kvsi_induction_create(task, &config, err);
}

static kvs_status train(kvs_model *model, const kvs_data *task, kvs_err *err)
{
    kvs_train_config config;
    kvs_trainer *trainer;
    kvs_status status;
    kvs_evaluation evaluation = {.size = sizeof(kvs_evaluation)};

    kvsi_train_config_init(&config);
    config.steps = STEPS;
    config.warmup = 10;
    config.batch = 256;
    config.lr = 5e-3;
    status = kvs_trainer_create(&trainer, model, task, &config, err);
    if (status != KVS_OK)
        return status;
    for (int step = 1; status == KVS_OK && step <= STEPS; step++) {
        kvs_step_record record;

        status = kvsi_trainer_step(trainer, &record, err);
        if (status == KVS_OK && step % 20 == 0)
            printf("step %d: loss %.3f\n", step, record.loss);
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
    float logits[FIRST_LETTER + LETTERS];
    int32_t best = FIRST_LETTER;
    kvs_session *session;
    kvs_status status = kvs_session_create(&session, model, NULL, err);

    if (status != KVS_OK)
        return status;
    status = kvs_session_feed(session, prompt, sizeof prompt / sizeof *prompt, logits, err);
    kvs_session_free(session);
    if (status != KVS_OK)
        return status;
    for (int32_t id = FIRST_LETTER; id < FIRST_LETTER + LETTERS; id++)
        if (logits[id] > logits[best])
            best = id;
    printf("A B C A -> %c\n", 'A' + best - FIRST_LETTER);
    return KVS_OK;
}

int main(void)
{
    kvs_runtime *runtime = NULL;
    kvs_model *model = NULL;
    kvs_data *task = NULL;
    kvs_err err;
    kvs_status status = kvs_runtime_create(&runtime, NULL, &err);

    if (status == KVS_OK)
        status = create_model(&model, runtime, &err);
    if (status == KVS_OK)
        status = create_task(&task, &err);
    if (status == KVS_OK)
        status = train(model, task, &err);
    if (status == KVS_OK)
        status = ask(model, &err);
    if (status != KVS_OK)
        fprintf(stderr, "first-steps: %s\n", err.message);
    kvs_data_free(task);
    kvs_model_free(model);
    kvs_runtime_free(runtime);
    return status == KVS_OK ? 0 : 1;
}
