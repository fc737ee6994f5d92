/* Fig. 4 and 6: language models of several sizes with and without KV shifting. */
#include "repro/curves.h"
#include "repro/scales.h"
#include "repro/text_arms.h"

#include <stdio.h>

enum { SIZES_MAX = 5 };

typedef struct size {
    size_t number;      /* at smaller scales: kvsi_scale_text */
    const char *preset; /* at scale paper */
    const char *name;
} size;

/* Each list ends with a NULL name. */
static const size sizes[KVS_SCALES][SIZES_MAX + 1] = {
    {{1, NULL, "width 16"}, {3, NULL, "width 32"}},
    {{2, NULL, "0.3M"}, {3, NULL, "0.5M"}, {4, NULL, "1.1M"}},
    {{0, "paper-1.5b", "1.5B"},
     {0, "paper-2.9b", "2.9B"},
     {0, "paper-6.7b", "6.7B"},
     {0, "paper-13b", "13B"},
     {0, "paper-19b", "19B"}},
};

static kvs_status plan(kvsi_plan *p, kvs_err *err)
{
    for (const size *s = sizes[p->scale]; s->name; s++)
        for (int shifted = 0; shifted <= 1; shifted++) {
            kvsi_planned run = {0};

            TRY(kvsi_scale_text(&run, p, s->number, s->preset, err));
            kvsi_shift_arm(&run, shifted, run.model.layers);
            kvsi_name_arm(&run, "%s, %s", shifted ? "KV shifting" : "vanilla", s->name);
            TRY(kvsi_plan_add(p, &run, err));
        }
    return KVS_OK;
}

static kvs_status conclude(kvsi_claims *out, const kvsi_results *results, kvs_err *err)
{
    const size *s = sizes[results->plan->scale];

    (void)err;
    for (size_t i = 0; s[i].name; i++) {
        char words[96], name[96], caption[256];

        snprintf(words, sizeof words, "%s: the loss is lower with KV shifting", s[i].name);
        kvsi_claim_loss(out, results,
                        &(kvsi_loss_claim){.arm = 2 * i + 1,
                                           .reference = 2 * i,
                                           .expects = KVSI_LOWER,
                                           .claim = words,
                                           .paper = "lower"});
        snprintf(name, sizeof name, "losses-%zu", i + 1);
        snprintf(caption, sizeof caption,
                 "%s. Strong lines: loss on the validation text, mean over the seeds with its "
                 "standard error; pale ones: on the training text. Below: the difference within "
                 "each seed.",
                 s[i].name);
        kvsi_draw_losses(out, results, 2 * i, 2, name, caption);
    }
    return kvsi_claims_check(out);
}

const kvsi_experiment kvsi_repro_lm_loss = {
    .about =
        {
            .name = "lm-loss",
            .figure = "Fig. 4, 6",
            .claim = "At every size a language model has a lower loss with KV shifting.",
            .settings =
                {"two tiny models, 8 steps on a made-up language: shows that everything works and "
                 "nothing else",
                 "0.3, 0.5 and 1.1 million parameters instead of 1.5 to 19 billion, 3.3 million "
                 "tokens of text instead of 10 to 500 billion, vocabulary 1024, windows of 256 "
                 "tokens, cosine rate from 2e-3; validation loss instead of training loss",
                 "the paper's five models, batches, rates and numbers of tokens; the text is not "
                 "the paper's, which is not public"},
            .seeds = {1, 3, 1},
            .learns_text = 1,
        },
    .plan = plan,
    .conclude = conclude,
};
