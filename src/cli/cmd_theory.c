/* kvshift theory: computes the paper's theorems. */
#include "cli/theory.h"

const kvsi_command kvsi_cmd_theory = {
    .name = "theory",
    .summary = "compute the results of the paper's theorems",
    .usage = "theorem1|theorem2|theorem3|landscape [OPTION]...",
    .purpose = "Computes the paper's theorems, corrected and as printed.\n"
               "docs/errata.md lists the differences.",
    .verbs = (const kvsi_command *const[]){&kvsi_theory_theorem1, &kvsi_theory_theorem2,
                                           &kvsi_theory_theorem3, &kvsi_theory_landscape, NULL},
};
