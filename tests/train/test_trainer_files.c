/* Checkpoints of a trainer.  After kvs_trainer_load() the steps have the bits of a training that
 * was not interrupted, for every kind of data, for every division of the work and on other ranks.
 * Checkpoints of other settings are refused with a message that has both values.  Old checkpoints
 * are removed, and damaged ones are skipped.  A process that is killed at any moment can be started
 * again. */
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "data/data.h"
#include "training.h"

#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { VOCAB = 24, CONTEXT = 10, SEQUENCES = 30, BATCH = 8, STEPS = 6 };

extern char **environ;

/* ---- data ------------------------------------------------------------------------------------ */

static size_t starts[SEQUENCES + 1];
static int32_t ids[SEQUENCES * CONTEXT];

static void fill_arrays(void)
{
    for (size_t s = 0; s < SEQUENCES; s++)
        starts[s + 1] = starts[s] + 3 + s * 5 % (CONTEXT - 2);
    support_fill_ids(ids, starts[SEQUENCES], 3, VOCAB);
}

static kvs_batch view_arrays(void)
{
    kvs_batch b;

    kvs_batch_init(&b, sizeof b);
    b.sequences = SEQUENCES;
    b.starts = starts;
    b.ids = ids;
    return b;
}

static size_t sequence(void *user, uint64_t seed, kvs_stream stream, uint64_t index, int32_t *out,
                       int32_t *targets, uint8_t *scored)
{
    const size_t length = 2 + (size_t)(index + seed) % (CONTEXT - 1);

    (void)user, (void)stream, (void)scored;
    for (size_t i = 0; i < length; i++) {
        out[i] = (int32_t)((index * 5 + i * 3) % VOCAB);
        targets[i] = (int32_t)((index * 5 + i * 3 + 3) % VOCAB);
    }
    return length;
}

typedef enum data_kind { ARRAYS, CALLBACK, NO_DATA, KINDS } data_kind;

static kvs_data *make_data(data_kind kind)
{
    const kvs_batch batch = view_arrays();
    kvs_data_source source;
    kvs_data *data = NULL;

    kvs_data_source_init(&source, sizeof source);
    source.vocab = VOCAB;
    source.max_length = CONTEXT;
    source.sequence = sequence;
    if (kind == ARRAYS)
        kvs_data_create_arrays(&data, &batch, &batch, VOCAB, NULL);
    if (kind == CALLBACK)
        kvs_data_create_callback(&data, &source, NULL);
    return data;
}

/* ---- a training with a given configuration --------------------------------------------------- */

static const support_sizes model_sizes = {.vocab = VOCAB, .dim = 16, .ffn = 24, .context = CONTEXT};
static const kvs_model_config dropping = {.layers = 2,
                                          .dropout_embedding = 0.1,
                                          .dropout_attention = 0.2,
                                          .dropout_residual = 0.2,
                                          SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1)};

static kvs_train_config training(void)
{
    kvs_train_config c = training_config(BATCH, STEPS);

    c.schedule = KVSI_SCHEDULE_COSINE;
    c.seed = 9;
    return c;
}

/* A training from step 1, or from the newest checkpoint in `load`, to step `until`. */
typedef struct training_run {
    kvs_model_config model;
    kvs_train_config train;
    data_kind kind;
    uint64_t until;
    uint64_t model_seed;
    const char *load, *save; /* folders of checkpoints; NULL = none */
    int evaluates;           /* evaluates and steps before it loads, which must have no effect */
    double losses[STEPS + 1];
    uint64_t loaded; /* the step of the checkpoint */
    training_result end;
} training_run;

static kvs_data *data_of_trainer(size_t rank, void *user)
{
    const training_run *t = user;

    (void)rank;
    return make_data(t->kind);
}

static kvs_status one_step(const kvs_step_record **record, kvs_trainer *trainer, data_kind kind,
                           kvs_err *err)
{
    const size_t first = kvs_trainer_steps(trainer) * 3 % (SEQUENCES - BATCH);
    size_t moved[BATCH + 1];
    kvs_batch batch;

    if (kind != NO_DATA)
        return kvs_trainer_step(record, trainer, err);
    for (size_t s = 0; s <= BATCH; s++)
        moved[s] = starts[first + s] - starts[first];
    kvs_batch_init(&batch, sizeof batch);
    batch.sequences = BATCH;
    batch.starts = moved;
    batch.ids = ids + starts[first];
    return kvs_trainer_step_batch(record, trainer, &batch, err);
}

static kvs_status run_steps(const training_rank *r, void *user, kvs_err *err)
{
    training_run *t = user;
    kvs_evaluation evaluation = {.size = sizeof evaluation};
    const kvs_step_record *record;
    uint64_t step = 77;

    if (t->evaluates) {
        TRY(kvs_trainer_evaluate(&evaluation, r->trainer, 9, err));
        TRY(kvs_trainer_step(NULL, r->trainer, err));
        TRY(kvs_trainer_evaluate(&evaluation, r->trainer, 9, err));
    }
    if (t->load) {
        TRY(kvs_trainer_load(&step, r->trainer, t->load, err));
        if (kvs_trainer_steps(r->trainer) != step)
            return kvsi_fail(err, KVS_E_IO, "step %d is not that of the checkpoint", (int)step);
    }
    if (r->comm->rank == 0)
        t->loaded = step;
    while (kvs_trainer_steps(r->trainer) < t->until) {
        TRY(one_step(&record, r->trainer, t->kind, err));
        if (r->comm->rank == 0)
            t->losses[record->step] = record->loss;
    }
    return t->save ? kvs_trainer_save(r->trainer, t->save, 0, err) : KVS_OK;
}

static training_run run(size_t ranks, training_run t)
{
    const training_setup setup = {.model = support_own_config(&t.model, &model_sizes),
                                  .model_seed = t.model_seed,
                                  .config = t.train,
                                  .make_data = data_of_trainer,
                                  .steps = run_steps,
                                  .user = &t};

    t.end = training_on_ranks(ranks, &setup);
    return t;
}

/* Runs a training that must not fail. */
static training_run done(size_t ranks, training_run t)
{
    t = run(ranks, t);
    if (t.end.err.status != KVS_OK)
        fail_msg("%zu ranks: %s", ranks, t.end.err.message);
    return t;
}

static training_run usual(void)
{
    return (training_run){.model = dropping, .train = training(), .until = STEPS, .model_seed = 5};
}

/* Checks the losses after the checkpoint, and the final weights. */
static void expect_same_end(const training_run *whole, const training_run *rest, const char *what)
{
    for (uint64_t i = rest->loaded + 1; i <= STEPS; i++)
        if (rest->losses[i] != whole->losses[i])
            fail_msg("%s: loss %.9g at step %d, expected %.9g", what, rest->losses[i], (int)i,
                     whole->losses[i]);
    training_expect_same_weights(&rest->end, &whole->end, what);
}

/* ---- loading and continuing ------------------------------------------------------------------ */

static void loaded_trainers_continue_with_the_same_bits(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (int way = 0; way < 8; way += kind == ARRAYS ? 1 : 7) {
            char *dir = support_make_dir(), what[64];
            training_run t = usual(), whole, half, rest;

            t.kind = (data_kind)kind;
            t.train.accumulate = way & 1 ? 4 : 1;
            t.train.deterministic = (way & 2) != 0;
            t.train.recompute = (way & 4) != 0;
            t.train.precision = way % 3 == 1 ? KVSI_PRECISION_BF16 : KVSI_PRECISION_F32;
            whole = done(0, t);
            half = t;
            half.until = 3;
            half.save = dir;
            half = done(0, half);
            rest = t;
            rest.load = dir;
            rest.model_seed = 6; /* other weights, which loading replaces */
            rest.evaluates = kind != NO_DATA;
            rest = done(0, rest);
            assert_int_equal(rest.loaded, 3);
            snprintf(what, sizeof what, "data %d, way %d", kind, way);
            expect_same_end(&whole, &rest, what);
            kvsi_free(whole.end.weights);
            kvsi_free(half.end.weights);
            kvsi_free(rest.end.weights);
            support_remove_dir(dir);
        }
}

static void checkpoints_fit_any_number_of_ranks(void **state)
{
    training_run given = usual(), whole;

    (void)state;
    given.train.deterministic = 1;
    whole = done(1, given);
    for (size_t i = 0; i < TRAINING_MOVES; i++) {
        const training_move *move = &training_moves[i];
        char *dir = support_make_dir();
        training_run half = given, rest = given;

        half.until = 3;
        half.save = dir;
        half.train.shard = move->first_shard;
        half = done(move->first, half);
        rest.load = dir;
        rest.model_seed = 6;
        rest.evaluates = 1; /* parameters that were gathered before are out of date */
        rest.train.shard = move->then_shard;
        rest = done(move->then, rest);
        assert_int_equal(rest.loaded, 3);
        expect_same_end(&whole, &rest, "ranks");
        kvsi_free(half.end.weights);
        kvsi_free(rest.end.weights);
        support_remove_dir(dir);
    }
    kvsi_free(whole.end.weights);
}

/* ---- a trainer and its folder ---------------------------------------------------------------- */

static kvs_model *make_model(kvs_runtime *rt)
{
    const kvs_model_config config = support_own_config(&dropping, &model_sizes);
    kvs_model *model = NULL;

    kvs_model_create(&model, rt, &config, 5, NULL);
    return model;
}

typedef struct fixture {
    kvs_runtime *rt;
    kvs_model *model;
    kvs_data *data;
    kvs_trainer *trainer;
    char *dir;
} fixture;

static void open_trainer(fixture *f)
{
    const kvs_train_config config = training();
    const kvs_runtime_options options = {.size = sizeof options, .threads = 1};

    assert_int_equal(kvs_runtime_create(&f->rt, &options, NULL), KVS_OK);
    f->model = make_model(f->rt);
    f->data = make_data(ARRAYS);
    assert_int_equal(kvs_trainer_create(&f->trainer, f->model, f->data, &config, NULL), KVS_OK);
}

static void close_trainer(fixture *f)
{
    kvs_trainer_free(f->trainer);
    kvs_data_free(f->data);
    kvs_model_free(f->model);
    kvs_runtime_free(f->rt);
}

/* Saves a checkpoint after each of `steps` steps. */
static void step_and_save(fixture *f, size_t steps, size_t keep)
{
    kvs_err err;

    for (size_t i = 0; i < steps; i++) {
        assert_int_equal(kvs_trainer_step(NULL, f->trainer, NULL), KVS_OK);
        if (kvs_trainer_save(f->trainer, f->dir, keep, &err) != KVS_OK)
            fail_msg("%s", err.message);
    }
}

static uint64_t load(fixture *f)
{
    uint64_t step = 77;
    kvs_err err;

    if (kvs_trainer_load(&step, f->trainer, f->dir, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return step;
}

/* ---- checkpoints of other settings or data --------------------------------------------------- */

/* Checks that a checkpoint of the usual training cannot be loaded by another. */
static void expect_refused(training_run other, const char *message)
{
    char *dir = support_make_dir();
    training_run first = usual();

    first.until = 2;
    first.save = dir;
    first = done(0, first);
    other.load = dir;
    other = run(0, other);
    assert_int_equal(other.end.err.status, KVS_E_INVALID);
    if (!strstr(other.end.err.message, message))
        fail_msg("'%s' does not contain '%s'", other.end.err.message, message);
    kvsi_free(first.end.weights);
    kvsi_free(other.end.weights);
    support_remove_dir(dir);
}

static void other_settings_are_refused_with_both_values(void **state)
{
    training_run t = usual();

    (void)state;
    t.train.lr = 4e-3;
    expect_refused(t, "train setting 'lr' is 0.004, but '");
    expect_refused(t, "step-00000002' was trained with 0.003");
    t = usual();
    t.train.batch = 4;
    expect_refused(t, "train setting 'batch' is 4");
    t = usual();
    t.train.seed = 10;
    expect_refused(t, "train setting 'seed' is 10");
    t = usual();
    t.train.precision = KVSI_PRECISION_BF16;
    expect_refused(t, "train setting 'precision' is \"bf16\", but '");
    expect_refused(t, "step-00000002' was trained with \"f32\"");
    t = usual();
    t.model.dropout_residual = 0.3;
    expect_refused(t, "model setting 'dropout_residual' is 0.3");
    t = usual();
    t.model.layers = 1;
    expect_refused(t, "model setting 'num_hidden_layers' is 1");
    t = usual();
    t.kind = CALLBACK;
    expect_refused(t, "task setting 'name' is \"callback\"");
    t = usual();
    t.kind = NO_DATA;
    expect_refused(t, "task setting 'name' is \"batches\"");
}

static void other_contents_are_refused(void **state)
{
    training_run first = usual();
    fixture f = {.dir = support_make_dir()};
    float before[16], after[16];
    uint64_t step = 9;
    kvs_err err;

    (void)state;
    first.until = 2;
    first.save = f.dir;
    first = done(0, first);
    ids[17] = (ids[17] + 1) % VOCAB;
    open_trainer(&f);
    kvs_model_read_tensor(before, 16, f.model, "model.norm.weight", NULL);
    assert_int_equal(kvs_trainer_load(&step, f.trainer, f.dir, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "task setting 'train_checksum' is \""));
    assert_int_equal(step, 0);
    assert_int_equal(kvs_trainer_steps(f.trainer), 0);
    kvs_model_read_tensor(after, 16, f.model, "model.norm.weight", NULL);
    assert_memory_equal(before, after, sizeof before);
    fill_arrays();
    close_trainer(&f);
    kvsi_free(first.end.weights);
    support_remove_dir(f.dir);
}

static void some_settings_may_change(void **state)
{
    char *dir = support_make_dir();
    training_run t = usual();

    (void)state;
    t.until = 2;
    t.save = dir;
    t = done(0, t);
    kvsi_free(t.end.weights);
    t = usual();
    t.load = dir;
    t.train.steps = 100;
    t.train.recompute = 1;
    t.train.deterministic = 1;
    t.train.eval_every = 7;
    t.train.keep = 9;
    t = done(0, t);
    assert_int_equal(t.loaded, 2);
    kvsi_free(t.end.weights);
    support_remove_dir(dir);
}

/* ---- folders of checkpoints ------------------------------------------------------------------ */

/* Checks the names of everything in the folder, written as "a b c ". */
static void expect_files(const char *dir, const char *expected)
{
    kvsi_name_list list;
    char found[512] = "";

    assert_int_equal(kvsi_dir_list(&list, dir, "", NULL), KVS_OK);
    for (size_t i = 0; i < list.count; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s ", list.names[i]);
    kvsi_name_list_release(&list);
    assert_string_equal(found, expected);
}

/* Changes one byte in the middle of a file of a checkpoint. */
static void damage(const char *dir, const char *checkpoint, const char *file)
{
    char path[512];
    long size;
    FILE *f;
    int byte;

    snprintf(path, sizeof path, "%s/%s/%s", dir, checkpoint, file);
    f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    size = ftell(f);
    assert_int_equal(fseek(f, size / 2, SEEK_SET), 0);
    byte = fgetc(f);
    assert_int_equal(fseek(f, size / 2, SEEK_SET), 0);
    assert_int_not_equal(fputc(byte ^ 0x11, f), EOF);
    assert_int_equal(fclose(f), 0);
}

static void old_checkpoints_are_removed(void **state)
{
    char *base = support_make_dir();
    fixture f = {.dir = kvsi_path_join(base, "made/for/it")};

    (void)state;
    open_trainer(&f);
    assert_int_equal(load(&f), 0);
    step_and_save(&f, 3, 0);
    expect_files(f.dir, "latest step-00000001 step-00000002 step-00000003 ");
    step_and_save(&f, 1, 2);
    expect_files(f.dir, "latest step-00000003 step-00000004 ");
    step_and_save(&f, 1, 1);
    expect_files(f.dir, "latest step-00000005 ");
    assert_int_equal(kvs_trainer_save(f.trainer, f.dir, 1, NULL),
                     KVS_OK); /* the same checkpoint again */
    expect_files(f.dir, "latest step-00000005 ");
    close_trainer(&f);
    open_trainer(&f);
    assert_int_equal(load(&f), 5);
    close_trainer(&f);
    kvsi_free(f.dir);
    support_remove_dir(base);
}

static void damaged_checkpoints_are_skipped(void **state)
{
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors", "config.json",
                                        "state.json", "DONE"};

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        fixture f = {.dir = support_make_dir()};
        uint64_t step = 77;
        kvs_err err;

        open_trainer(&f);
        step_and_save(&f, 4, 0);
        close_trainer(&f);
        open_trainer(&f);
        damage(f.dir, "step-00000004", files[i]);
        assert_int_equal(load(&f), 3);
        damage(f.dir, "step-00000003", files[i]);
        assert_int_equal(load(&f), 2);
        /* Damaged checkpoints of later steps do not count: the new one is kept, and a checkpoint of
         * the same step replaces a damaged one. */
        step_and_save(&f, 1, 1);
        expect_files(f.dir, "latest step-00000003 step-00000004 ");
        assert_int_equal(load(&f), 3);
        step_and_save(&f, 1, 1);
        expect_files(f.dir, "latest step-00000004 ");
        assert_int_equal(load(&f), 4);
        damage(f.dir, "step-00000004", files[i]);
        assert_int_equal(kvs_trainer_load(&step, f.trainer, f.dir, &err), KVS_E_FORMAT);
        assert_non_null(strstr(err.message, "has no complete checkpoint: "));
        assert_int_equal(step, 0);
        assert_int_equal(kvs_trainer_steps(f.trainer), 4);
        close_trainer(&f);
        support_remove_dir(f.dir);
    }
}

/* The folder has a checkpoint of a later step, which the next kvs_trainer_load() would take. */
static void a_folder_with_a_later_checkpoint_is_refused(void **state)
{
    fixture f = {.dir = support_make_dir()};
    kvs_err err;

    (void)state;
    open_trainer(&f);
    step_and_save(&f, 2, 0);
    close_trainer(&f);
    open_trainer(&f);
    assert_int_equal(kvs_trainer_step(NULL, f.trainer, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_save(f.trainer, f.dir, 1, &err), KVS_E_EXISTS);
    assert_non_null(strstr(err.message, "step-00000002' is a later checkpoint"));
    expect_files(f.dir, "latest step-00000001 step-00000002 ");
    assert_int_equal(kvs_trainer_step(NULL, f.trainer, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_save(f.trainer, f.dir, 1, &err),
                     KVS_OK); /* replaces the one of step 2 */
    expect_files(f.dir, "latest step-00000002 ");
    close_trainer(&f);
    support_remove_dir(f.dir);
}

/* A process that was killed may leave unfinished folders and links; the next save removes them. */
static void leftovers_are_removed(void **state)
{
    static const char *const names[] = {".filling", ".replaced"};
    fixture f = {.dir = support_make_dir()};
    char *link = kvsi_path_join(f.dir, "latest.tmp");
    int made;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char *path = kvsi_path_join(f.dir, names[i]);
        char *file = kvsi_path_join(path, "model.safetensors");

        assert_int_equal(kvsi_dir_make(path, &made, NULL), KVS_OK);
        assert_int_equal(kvsi_file_write_text(file, "half", NULL), KVS_OK);
        kvsi_free(file);
        kvsi_free(path);
    }
    assert_int_equal(symlink("step-00000009", link), 0);
    open_trainer(&f);
    assert_int_equal(load(&f), 0);
    step_and_save(&f, 1, 0);
    expect_files(f.dir, "latest step-00000001 ");
    close_trainer(&f);
    kvsi_free(link);
    support_remove_dir(f.dir);
}

static void failures_leave_the_last_checkpoint(void **state)
{
    fixture f = {.dir = support_make_dir()};
    struct rlimit before, small = {.rlim_cur = 4096};
    char *file = kvsi_path_join(f.dir, "file"), *below = kvsi_path_join(file, "ckpt");
    uint64_t step;
    kvs_err err;

    (void)state;
    open_trainer(&f);
    assert_int_equal(kvsi_file_write_text(file, "x", NULL), KVS_OK);
    assert_int_equal(kvs_trainer_save(f.trainer, below, 0, &err), KVS_E_IO);
    assert_int_equal(kvs_trainer_load(&step, f.trainer, below, &err), KVS_E_IO);
    assert_int_equal(unlink(file), 0);
    step_and_save(&f, 1, 1);
    assert_int_equal(kvs_trainer_step(NULL, f.trainer, NULL), KVS_OK);
    signal(SIGXFSZ, SIG_IGN); /* files may not grow, as on a full disk */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(kvs_trainer_save(f.trainer, f.dir, 1, &err), KVS_E_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    expect_files(f.dir, "latest step-00000001 ");
    assert_int_equal(kvs_trainer_save(f.trainer, f.dir, 1, &err), KVS_OK);
    expect_files(f.dir, "latest step-00000002 ");
    close_trainer(&f);
    kvsi_free(file);
    kvsi_free(below);
    support_remove_dir(f.dir);
}

static void null_arguments_are_refused(void **state)
{
    fixture f = {.dir = NULL};
    uint64_t step;
    kvs_err err;

    (void)state;
    open_trainer(&f);
    assert_int_equal(kvs_trainer_save(NULL, "x", 0, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "trainer is NULL");
    assert_int_equal(kvs_trainer_save(f.trainer, NULL, 0, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "dir is NULL");
    assert_int_equal(kvs_trainer_save(f.trainer, "", 0, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "dir is empty");
    assert_int_equal(kvs_trainer_load(&step, NULL, "x", &err), KVS_E_INVALID);
    assert_string_equal(err.message, "trainer is NULL");
    assert_int_equal(kvs_trainer_load(&step, f.trainer, NULL, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "dir is NULL");
    assert_int_equal(kvs_trainer_load(NULL, f.trainer, "there-is-no-such-folder", &err), KVS_OK);
    close_trainer(&f);
}

/* ---- processes that are killed --------------------------------------------------------------- */

enum { KILL_STEPS = 40, KILLS = 12 };

/* Trains in the process that is killed, which is this program with a folder as an argument.  Saves
 * after every step, and returns the exit status. */
static int train_in(const char *dir)
{
    kvs_train_config config = training();
    const kvs_runtime_options options = {.size = sizeof options, .threads = 1};
    kvs_data *data = make_data(ARRAYS);
    kvs_runtime *rt = NULL;
    kvs_model *model = NULL;
    kvs_trainer *trainer = NULL;
    uint64_t step = 0;
    kvs_err err;
    kvs_status st;

    config.steps = KILL_STEPS;
    TRY_OUT(kvs_runtime_create(&rt, &options, &err));
    model = make_model(rt);
    TRY_OUT(kvs_trainer_create(&trainer, model, data, &config, &err));
    TRY_OUT(kvs_trainer_load(&step, trainer, dir, &err));
    while (step < KILL_STEPS) {
        TRY_OUT(kvs_trainer_step(NULL, trainer, &err));
        TRY_OUT(kvs_trainer_save(trainer, dir, 1 + step % 3, &err));
        step = kvs_trainer_steps(trainer);
    }
    TRY_OUT(kvs_model_save(model, dir, &err));
out:
    if (st != KVS_OK)
        fprintf(stderr, "%s: %s\n", dir, err.message);
    kvs_trainer_free(trainer);
    kvs_model_free(model);
    kvs_runtime_free(rt);
    kvs_data_free(data);
    return st == KVS_OK ? 0 : 1;
}

static pid_t start(char *dir)
{
    char self[] = "/proc/self/exe", train_word[] = "train";
    char *arguments[] = {self, train_word, dir, NULL};
    pid_t pid;

    assert_int_equal(posix_spawn(&pid, self, NULL, NULL, arguments, environ), 0);
    return pid;
}

static void expect_end(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the step of the newest checkpoint; 0 = none. */
static uint64_t newest_step(const char *dir)
{
    kvsi_name_list list;
    uint64_t step = 0;

    assert_int_equal(kvsi_dir_list(&list, dir, "step-", NULL), KVS_OK);
    if (list.count > 0)
        step = strtoull(list.names[list.count - 1] + strlen("step-"), NULL, 10);
    kvsi_name_list_release(&list);
    return step;
}

/* Starts a process and kills it at a random moment, either while it starts or after it has written
 * a checkpoint.  `each` is the seconds of a step.  Returns 0 if the process had already ended. */
static int start_and_kill(char *dir, double each, unsigned random)
{
    const uint64_t before = newest_step(dir);
    const pid_t pid = start(dir);
    int status;

    if (random % 4 != 0)
        while (newest_step(dir) == before && kill(pid, 0) == 0 && before < KILL_STEPS)
            usleep(200);
    usleep((useconds_t)(1e6 * each * 2 * ((random >> 8) % 1000) / 1000));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(!WIFEXITED(status) || WEXITSTATUS(status) == 0);
    return !WIFEXITED(status);
}

static void killed_processes_continue(void **state)
{
    char *base = support_make_dir(), *whole = kvsi_path_join(base, "whole");
    char *killed = kvsi_path_join(base, "killed"), *one, *other, *bytes, *other_bytes;
    size_t size, other_size, kills = 0;
    double seconds = now();
    unsigned random = 7;

    (void)state;
    expect_end(start(whole));
    seconds = now() - seconds;
    while (kills < KILLS && newest_step(killed) < KILL_STEPS) {
        random = random * 1103515245u + 12345u;
        if (!start_and_kill(killed, seconds / KILL_STEPS, random >> 4))
            break;
        kills++;
    }
    expect_end(start(killed));
    print_message("killed %zu times\n", kills);
    assert_true(kills >= 4);
    one = kvsi_path_join(whole, "model.safetensors");
    other = kvsi_path_join(killed, "model.safetensors");
    assert_int_equal(kvsi_file_read(&bytes, &size, one, 1 << 24, NULL), KVS_OK);
    assert_int_equal(kvsi_file_read(&other_bytes, &other_size, other, 1 << 24, NULL), KVS_OK);
    assert_int_equal(size, other_size);
    assert_memory_equal(bytes, other_bytes, size);
    kvsi_free(bytes);
    kvsi_free(other_bytes);
    kvsi_free(one);
    kvsi_free(other);
    kvsi_free(whole);
    kvsi_free(killed);
    support_remove_dir(base);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loaded_trainers_continue_with_the_same_bits),
        cmocka_unit_test(checkpoints_fit_any_number_of_ranks),
        cmocka_unit_test(other_settings_are_refused_with_both_values),
        cmocka_unit_test(other_contents_are_refused),
        cmocka_unit_test(some_settings_may_change),
        cmocka_unit_test(old_checkpoints_are_removed),
        cmocka_unit_test(damaged_checkpoints_are_skipped),
        cmocka_unit_test(a_folder_with_a_later_checkpoint_is_refused),
        cmocka_unit_test(leftovers_are_removed),
        cmocka_unit_test(failures_leave_the_last_checkpoint),
        cmocka_unit_test(null_arguments_are_refused),
        cmocka_unit_test(killed_processes_continue),
    };

    fill_arrays();
    if (argc == 3 && strcmp(argv[1], "train") == 0)
        return train_in(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
