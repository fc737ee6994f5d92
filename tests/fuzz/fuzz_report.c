/* Run folders as read by reports: train.jsonl, result.json and benchmarks.jsonl. */
#include "base/files.h"
#include "fuzz.h"
#include "kvshift/kvshift_lab.h"

#include <string.h>

enum { FILES = 3 }; /* of a run */
static const char *const names[] = {"a/train.jsonl",
                                    "a/result.json",
                                    "a/benchmarks.jsonl",
                                    "b/train.jsonl",
                                    "b/result.json",
                                    "b/benchmarks.jsonl",
                                    NULL};
static const char *const dirs[] = {"a", "b"};

static kvs_status report_on(size_t count, kvs_err *err)
{
    const kvs_report_options options = {.json = "report.json"};
    kvs_report *report;
    const kvs_status st = kvs_report_create(&report, dirs, count, err);

    if (st != KVS_OK)
        return st;
    fuzz_expect(kvs_report_text(report) != NULL, "there is a text");
    kvs_report_write(report, &options, NULL);
    kvs_report_free(report);
    return st;
}

/* The first run alone, then both; no curves, which another program draws. */
kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    kvs_status st;
    int made;

    for (size_t i = 0; i < 2; i++)
        fuzz_expect(kvsi_dir_make(dirs[i], &made, NULL) == KVS_OK, "folders can be made");
    fuzz_unpack(names, data, size);
    st = report_on(1, err);
    return st == KVS_OK ? report_on(2, err) : st;
}

static const char settings[] =
    "{\"kvshift\": \"0.1.0\", \"command\": \"kvshift train\", \"model\": {\"vocab_size\": 12, "
    "\"hidden_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
    "\"intermediate_size\": 4, \"max_position_embeddings\": 8%s}, \"parameters\": 65000, "
    "\"task\": {\"name\": \"%s\", \"path\": \"x\", \"valid_tokens\": 5}, \"train\": {\"steps\": "
    "3, \"lr\": 0.1, \"seed\": 1, \"eval_every\": 1}, \"threads\": 2, \"cpu_level\": \"avx2\"}\n";

static void pack_run(kvsi_text *input, size_t index, const char *shift, const char *task)
{
    static const char result[] = "{\"steps\": 3, \"final_loss\": 0.5, \"final_accuracy\": null, "
                                 "\"step_at_99\": 2, \"seconds\": 1.5, \"tokens\": 9}";
    static const char benchmarks[] =
        "{\"step\": 2, \"scores\": [{\"task\": \"arc_easy\", \"metric\": \"acc\", \"value\": 0.25, "
        "\"error\": null, \"documents\": 4}]}\n";
    kvsi_text log = {0};

    kvsi_text_format(&log, settings, shift, task);
    for (int step = 1; step <= 3; step++)
        kvsi_text_format(&log,
                         "{\"step\": %d, \"loss\": 1.5, \"accuracy\": 0.5, \"tokens\": 3, "
                         "\"seconds\": 0.01, \"eval_loss\": %d.25}\n",
                         step, 4 - step);
    fuzz_pack(input, names[FILES * index], log.data, log.length);
    fuzz_pack(input, names[FILES * index + 1], result, strlen(result));
    fuzz_pack(input, names[FILES * index + 2], benchmarks, strlen(benchmarks));
    kvsi_text_release(&log);
}

static void seed(const char *name, const char *task)
{
    kvsi_text input = {0};

    pack_run(&input, 0, "", task);
    pack_run(&input, 1, ", \"kvshift\": {\"targets\": \"kv\"}", task);
    fuzz_seed(name, &input);
}

void fuzz_seeds(void)
{
    seed("text", "corpus");
    seed("task", "induction");
}
