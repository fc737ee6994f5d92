#include "cli/train_output.h"

#include "base/text.h"
#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static double token_rate(const kvs_train_result *result)
{
    return result->seconds > 0 ? (double)result->tokens / result->seconds : 0;
}

static json_t *lengths_to_json(const kvs_evaluation *final)
{
    json_t *list = json_array();

    for (size_t i = 0; i < final->buckets; i++) {
        const kvs_length_bucket *b = final->bucket + i;

        json_array_append_new(list,
                              json_pack("{s:I, s:I, s:I, s:o}", "from", (json_int_t)b->from, "to",
                                        (json_int_t)b->to, "scored", (json_int_t)b->scored,
                                        "accuracy", kvsi_json_number(b->accuracy)));
    }
    return list;
}

static kvs_status print_json(const kvsi_train_outcome *o, kvs_err *err)
{
    const kvsi_train_setup *w = o->w;
    const kvsi_train_options *s = o->s;
    const kvs_train_result *result = o->result;
    json_t *const step_at_99 =
        result->step_at_99 ? json_integer((json_int_t)result->step_at_99) : json_null();
    /* clang-format off */
    json_t *const object =
        json_pack("{s:s, s:I, s:o, s:o, s:o, s:f, s:I, s:f, s:I, s:I, s:I, s:i, s:s, s:o}",
                  "task", s->task,
                  "steps", (json_int_t)result->steps,
                  "final_accuracy", kvsi_json_number(result->final.accuracy),
                  "final_loss", kvsi_json_number(result->final.loss),
                  "step_at_99", step_at_99,
                  "seconds", result->seconds,
                  "tokens", (json_int_t)result->tokens,
                  "tokens_per_s", token_rate(result),
                  "parameters", (json_int_t)kvs_model_parameters(w->model),
                  "seed", (json_int_t)s->train.seed,
                  "ranks", (json_int_t)kvs_comm_size(w->comm),
                  "threads", kvs_runtime_threads(w->rt),
                  "cpu_level", kvs_runtime_cpu_level(w->rt),
                  "out", kvsi_json_path(s->out));
    /* clang-format on */

    if (result->final.buckets > 0)
        json_object_set_new(object, "accuracy_by_length", lengths_to_json(&result->final));
    if (kvsi_train_is_task(s, "ngram"))
        json_object_set_new(object, "x2_only_ceiling",
                            kvsi_json_number(kvs_ngram_ceiling(w->task)));
    if (s->profile)
        json_object_set_new(object, "profile", kvsi_train_profile_json(o->profile));
    return kvsi_cli_print_json(object, err);
}

/* Lengths of which none was drawn have no accuracy. */
static void print_lengths(const kvs_evaluation *final)
{
    const char *between = "";

    printf("by length ");
    for (size_t i = 0; i < final->buckets; i++) {
        const kvs_length_bucket *b = final->bucket + i;

        if (b->scored == 0)
            continue;
        printf("%s%zu-%zu: %.2f %%", between, b->from, b->to, 100 * b->accuracy);
        between = ", ";
    }
    printf("\n");
}

static void print_accuracy(const kvsi_train_setup *w, const kvsi_train_options *s,
                           const kvs_evaluation *final)
{
    if (isnan(final->accuracy))
        printf("accuracy  unknown: nothing is scored in %zu sequences (loss %.4f)\n",
               s->job.eval_sequences, final->loss);
    else
        printf("accuracy  %.2f %% on %zu %ssequences (loss %.4f)\n", 100 * final->accuracy,
               s->job.eval_sequences, kvsi_train_is_task(s, "ngram") ? "" : "fresh ", final->loss);
    if (final->buckets > 0)
        print_lengths(final);
    if (kvsi_train_is_task(s, "ngram"))
        printf("ceiling   %.2f %% for any guess that sees x2 only\n",
               100 * kvs_ngram_ceiling(w->task));
}

static void print_summary(const kvsi_train_outcome *o)
{
    const kvsi_train_setup *w = o->w;
    const kvsi_train_options *s = o->s;
    const kvs_train_result *result = o->result;
    char duration[32], rate[32];

    kvsi_format_duration(duration, sizeof duration, result->seconds);
    kvsi_format_count(rate, sizeof rate, token_rate(result));
    if (s->data)
        printf("loss      %.4f, perplexity %.3f on %zu windows of the validation text\n",
               result->final.loss, exp(result->final.loss), s->job.eval_sequences);
    else
        print_accuracy(w, s, &result->final);
    if (s->data)
        printf("steps     %" PRIu64 "\n", result->steps);
    else if (result->step_at_99)
        printf("99 %%      reached at step %" PRIu64 " of %" PRIu64 "\n", result->step_at_99,
               result->steps);
    else
        printf("99 %%      not reached in %" PRIu64 " steps\n", result->steps);
    printf("time      %s, %s tokens/s\n", duration, rate);
    if (s->profile)
        kvsi_train_profile_print(o->profile);
    if (s->out)
        printf("files     %s: model.safetensors, config.json, %strain.jsonl, result.json\n", s->out,
               w->tokenizer ? "tokenizer.json, " : "");
    else
        printf("files     none: no --out\n");
}

kvs_status kvsi_train_result_print(const kvsi_train_outcome *outcome, kvs_err *err)
{
    if (outcome->s->json)
        return print_json(outcome, err);
    print_summary(outcome);
    return KVS_OK;
}
