/* Stored results of benchmarks: a results file and the samples of two tasks. */
#include "eval/stored.h"
#include "fuzz.h"
#include "kvshift/kvshift_lab.h"

#include <string.h>

static const char *const names[] = {"results_1.json", "samples_one_1.jsonl", "samples_two_1.jsonl",
                                    NULL};

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    static const char *const paths[] = {".", "results_1.json"};
    kvs_eval_report_options options;
    kvs_eval_report *report;
    kvs_status st;

    fuzz_unpack(names, data, size);
    kvs_eval_report_options_init(&options);
    options.resamples = 3;
    st = kvs_eval_compare(&report, paths, 2, &options, err);
    kvs_eval_report_free(report);
    if (st != KVS_OK)
        return st;
    st = kvs_eval_show(&report, paths, 1, &options, err);
    kvs_eval_report_free(report);
    return st;
}

void fuzz_seeds(void)
{
    static const char results[] =
        "{\"results\": {\"one\": {\"acc,none\": 0.5}, \"two\": {}, \"g\": {}}, \"n-shot\": "
        "{\"one\": 2}, \"group_subtasks\": {\"g\": [\"one\", \"two\"]}, \"model_name\": \"m\"}";
    static const char choices[] =
        "{\"doc_id\": 0, \"doc\": {\"choices\": [\"x\", \"yy\"]}, \"target\": \"1\", "
        "\"arguments\": {\"gen_args_0\": {\"arg_0\": \"p\", \"arg_1\": \" A\"}, \"gen_args_1\": "
        "{\"arg_0\": \"p\", \"arg_1\": \" B\"}}, \"filtered_resps\": [[\"-1.5\", \"False\"], "
        "[\"-2\", \"True\"]], \"filter\": \"none\", \"metrics\": [\"acc\"], \"doc_hash\": \"a\", "
        "\"prompt_hash\": \"b\", \"target_hash\": \"c\", \"acc\": 0.0}\n";
    static const char word[] =
        "{\"doc_id\": 0, \"doc\": {}, \"target\": \" w\", \"arguments\": [[\"a w\", \" w\"]], "
        "\"filtered_resps\": [[-1.5, false]], \"metrics\": [\"perplexity\", \"acc\"], "
        "\"doc_hash\": \"a\", \"perplexity\": -1.5, \"acc\": 1}\n";
    static const char text[] =
        "{\"doc_id\": 0, \"doc\": {}, \"target\": \"5\", \"arguments\": {\"gen_args_0\": "
        "{\"arg_0\": \"p\", \"arg_1\": {\"until\": []}}}, \"filtered_resps\": [\"5\"], "
        "\"metrics\": [\"exact_match\"], \"doc_hash\": \"a\", \"exact_match\": 1}\n";
    static const struct {
        const char *name, *one, *two;
    } seeds[] = {{"choices", choices, choices}, {"word", word, word}, {"text", text, text}};

    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        kvsi_text input = {0};

        fuzz_pack(&input, names[0], results, sizeof results - 1);
        fuzz_pack(&input, names[1], seeds[i].one, strlen(seeds[i].one));
        fuzz_pack(&input, names[2], seeds[i].two, strlen(seeds[i].two));
        fuzz_seed(seeds[i].name, &input);
    }
}
