/* kvshift theory: computes the paper's theorems. */
#include "cli/theory.h"
#include "cli/verbs.h"

int kvsi_cmd_theory(int argc, char **argv)
{
    static const kvsi_verb verbs[] = {
        {"theorem1", "two ordinary layers against an induction head", kvsi_theory_theorem1, NULL},
        {"theorem2", "one layer of KV shifting attention against it", kvsi_theory_theorem2, NULL},
        {"theorem3", "the loss as a function of the four coefficients", kvsi_theory_theorem3, NULL},
        {"landscape", "that loss over the paper's square, and gradient descent on it",
         kvsi_theory_landscape, NULL},
    };
    static const kvsi_verb_list list = {
        .name = "theory",
        .usage = "theorem1|theorem2|theorem3|landscape [OPTION]...",
        .purpose = "Computes the paper's theorems, corrected and as printed.\n"
                   "docs/errata.md lists the differences.",
        .verbs = verbs,
        .count = sizeof verbs / sizeof *verbs,
    };

    return kvsi_cli_run_verb(&list, argc, argv);
}
