/* Compares settings, data and weights of all ranks before the first step.  Ranks that were started
 * with different options, or that find different data, would otherwise train a wrong model. */
#include "base/checksum.h"
#include "base/memory.h"
#include "data/data.h"
#include "model/model.h"
#include "train/settings.h"

#include <stdlib.h>
#include <string.h>

/* The checksum of the first sequences of both streams. */
static kvs_status sample_data(uint64_t *out, const kvsi_train_job *job, kvs_err *err)
{
    enum { SEQUENCES = 16 };
    kvsi_batch_buffer batch = {0};
    kvsi_checksum_stream *stream = NULL;
    kvs_status st;

    TRY_OUT(kvsi_checksum_create(&stream, err));
    TRY_OUT(kvsi_batch_buffer_init(&batch, job->data, SEQUENCES, err));
    for (int i = 0; i < (job->data->no_evaluation ? 1 : 2); i++) {
        TRY_OUT(kvsi_batch_fill(&batch, job->data, job->config.seed,
                                i == 0 ? KVSI_RANDOM_DATA : KVSI_RANDOM_EVAL, 0, SEQUENCES, err));
        kvsi_checksum_add(stream, batch.starts, (SEQUENCES + 1) * sizeof *batch.starts);
        kvsi_checksum_add(stream, batch.ids, batch.starts[SEQUENCES] * sizeof *batch.ids);
        kvsi_checksum_add(stream, batch.targets, batch.starts[SEQUENCES] * sizeof *batch.targets);
    }
    *out = kvsi_checksum_value(stream);
out:
    kvsi_checksum_free(stream);
    kvsi_batch_buffer_release(&batch);
    return st;
}

/* Everything that must be the same on all ranks, in named groups; a new reference.  The path of the
 * data is left out: it may differ between machines. */
static json_t *describe_job(const kvsi_train_job *job, const json_t *settings, uint64_t data,
                            uint64_t weights)
{
    char data_text[KVSI_CHECKSUM_TEXT], weight_text[KVSI_CHECKSUM_TEXT];
    json_t *task = json_copy(json_object_get(settings, "task"));

    kvsi_checksum_print(data_text, data);
    kvsi_checksum_print(weight_text, weights);
    json_object_del(task, "path");
    return json_pack(
        "{s:{s:s, s:s}, s:O, s:o, s:O, s:{s:s, s:b, s:I, s:i, s:b, s:I, s:I}, s:{s:s}, s:{s:s}}",
        "program", "version", kvs_build()->version, "commit", kvs_build()->commit, "model",
        json_object_get(settings, "model"), "task", task, "train",
        json_object_get(settings, "train"), "run", "shard", kvsi_shard_name(job->config.shard),
        "deterministic", job->config.deterministic, "checkpoint_every",
        (json_int_t)job->config.checkpoint_every, "resume", (int)job->resume, "folder",
        job->out != NULL, "sample_every", (json_int_t)job->config.sample_every, "eval_tasks_every",
        (json_int_t)job->config.eval_tasks_every, "data", "checksum", data_text, "weights",
        "checksum", weight_text);
}

/* Fails with the first value that differs from rank 0. */
static kvs_status compare(const json_t *ours, const json_t *first, kvs_err *err)
{
    const char *group, *key;
    json_t *values, *value;

    json_object_foreach((json_t *)ours, group, values)
        json_object_foreach(values, key, value) {
            const json_t *theirs = json_object_get(json_object_get(first, group), key);
            char *here, *there;

            if (json_equal(value, theirs))
                continue;
            here = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
            there = json_dumps(theirs, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
            kvsi_fail(err, KVS_E_INVALID, "%s %s is %.100s here, %.100s on rank 0", group, key,
                      here ? here : "?", there ? there : "none");
            free(here);
            free(there);
            return KVS_E_INVALID;
        }
    return KVS_OK;
}

/* Broadcasts the text of rank 0; *out is in new memory (kvsi_free) on every rank. */
static kvs_status broadcast_text(char **out, const kvs_comm *comm, const char *own, kvs_err *err)
{
    uint64_t size = strlen(own) + 1;

    *out = NULL;
    TRY(kvsi_comm_broadcast(comm, &size, sizeof size, 0, err));
    *out = kvsi_alloc(size, 1);
    if (!*out)
        return kvsi_no_memory(err, "the settings of rank 0");
    if (comm->rank == 0)
        memcpy(*out, own, size);
    return kvsi_comm_broadcast(comm, *out, size, 0, err);
}

static kvs_status compare_with_first(const kvs_comm *comm, const json_t *ours, kvs_err *err)
{
    char *own, *text = NULL;
    json_t *as_sent = NULL, *first = NULL;
    const kvs_status dumped =
        kvsi_json_dump(&own, ours, JSON_COMPACT | JSON_REAL_PRECISION(15), "settings", err);
    kvs_status st;

    TRY_OUT(broadcast_text(&text, comm, own ? own : "{}", err)); /* also on ranks that failed */
    if (!own) {
        st = dumped;
        goto out;
    }
    TRY_OUT(kvsi_json_parse(&first, text, strlen(text), "settings of rank 0", err));
    TRY_OUT(kvsi_json_parse(&as_sent, own, strlen(own), "settings", err));
    TRY_OUT(compare(as_sent, first, err));
out:
    free(own);
    kvsi_free(text);
    json_decref(as_sent);
    json_decref(first);
    return st;
}

kvs_status kvsi_run_settings_agree(const kvsi_train_job *job, const json_t *settings, kvs_err *err)
{
    kvs_comm *comm = job->model->comm;
    uint64_t data = 0, weights = 0;
    json_t *ours = NULL;
    kvs_status st;

    if (comm->size == 1)
        return KVS_OK;
    st = sample_data(&data, job, err);
    if (st == KVS_OK && !job->model->shards)
        st = kvsi_model_fingerprint(&weights, job->model, err);
    TRY_OUT(kvs_comm_agree(comm, st, err));
    ours = describe_job(job, settings, data, weights);
    st = ours ? compare_with_first(comm, ours, err) : kvsi_no_memory(err, "the settings");
    st = kvs_comm_agree(comm, st, err);
out:
    json_decref(ours);
    return st;
}
