/* Trains a model on arrays in memory.  A sequence has every n-th letter, such as A C E G ..., then
 * one of these letters and its successor again.  Only that last letter is learned.
 *
 * Checkpoints are written to the folder argv[1].  If the program is killed and started again, it
 * continues from the newest one and writes a model with the same bytes. */
#include <kvshift/kvshift.h>
#include <stdio.h>
#include <stdlib.h>

enum { LETTERS = 26, LENGTH = 12, SEQUENCES = 4096, STEPS = 120, SAVE_EVERY = 10 };

static int32_t ids[SEQUENCES * LENGTH];
static uint8_t mask[SEQUENCES * LENGTH]; /* 1 = the letter after this one is learned */
static size_t starts[SEQUENCES + 1];
static kvs_err err;

static void check(kvs_status status)
{
    if (status != KVS_OK) {
        fprintf(stderr, "own-data: %s\n", err.message);
        exit(1);
    }
}

static void make_sequence(size_t s)
{
    const size_t first = s % LETTERS, n = 1 + s / LETTERS % 5, again = s / 131 % (LENGTH - 3);
    for (size_t i = 0; i < LENGTH; i++) /* the last two repeat letters again and again + 1 */
        ids[s * LENGTH + i] =
            (int32_t)((first + n * (i < LENGTH - 2 ? i : again + i - (LENGTH - 2))) % LETTERS);
    mask[s * LENGTH + LENGTH - 2] = 1;
    starts[s + 1] = starts[s] + LENGTH;
}

static int print_letter(void *user, const kvs_generated *token)
{
    return fprintf(user, "A D G J M D -> %c\n", 'A' + token->id) < 0;
}

int main(int argc, char **argv)
{
    const char *const set[][2] = {{"shift", "kv"}, {"vocab", "26"}, {"dim", "64"}, {"layers", "1"}};
    const char *dir = argc > 1 ? argv[1] : "own-data.run";
    const kvs_batch train = {sizeof train, SEQUENCES, starts, ids, .mask = mask};
    const kvs_sampling best = {.size = sizeof best, .temperature = 0, .top_p = 1};
    const int32_t prompt[] = {0, 3, 6, 9, 12, 3}; /* A D G J M D */
    const kvs_generate_options how = {sizeof how, 1, &best, .token = print_letter, .user = stdout};
    kvs_model_config *shape;
    kvs_train_config *config;
    kvs_runtime *runtime;
    kvs_model *model;
    kvs_data *data;
    kvs_trainer *trainer;
    kvs_session *session;
    uint64_t step;

    for (size_t s = 0; s < SEQUENCES; s++)
        make_sequence(s);
    check(kvs_runtime_create(&runtime, NULL, &err));
    check(kvs_model_config_create(&shape, NULL, &err));
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        check(kvs_model_config_set(shape, set[i][0], set[i][1], &err));
    check(kvs_model_create(&model, runtime, shape, 1, &err));
    check(kvs_data_create_arrays(&data, &train, NULL, LETTERS, &err));
    check(kvs_train_config_create(&config, NULL, &err));
    check(kvs_train_config_set(config, "lr", "5e-3", &err));
    check(kvs_trainer_create(&trainer, model, data, config, &err));
    check(kvs_trainer_load(&step, trainer, dir, &err)); /* step 0 = there is no checkpoint */
    while (step++ < STEPS) {
        const kvs_step_record *record;
        check(kvs_trainer_step(&record, trainer, &err));
        if (step % SAVE_EVERY == 0) {
            printf("step %d: loss %.4f\n", (int)step, record->loss);
            check(kvs_trainer_save(trainer, dir, 2, &err));
        }
    }
    check(kvs_model_save(model, dir, &err));
    check(kvs_session_create(&session, model, NULL, &err));
    check(kvs_generate(NULL, session, prompt, sizeof prompt / sizeof *prompt, &how, &err));
}
