/* eval/latex_number.h - which answers can be compared without symbolic algebra. */
#ifndef KVSI_EVAL_LATEX_NUMBER_H
#define KVSI_EVAL_LATEX_NUMBER_H

typedef enum kvsi_latex_result {
    KVSI_LATEX_DIFFER,
    KVSI_LATEX_EQUAL,
    KVSI_LATEX_UNKNOWN
} kvsi_latex_result;

/* Whether sympy, which the harness uses, finds two different texts equal.  Known for integers,
 * decimals and fractions of integers ("-12", "0.5", "3/4", "-\frac{3}{4}") unless they are so long
 * and so close that it depends on how they are rounded.  A text that sympy cannot read differs from
 * all others: an empty one, ".5", "5.", "05", "5\%", "(1,2)", "[0,1)", a matrix of several rows. */
kvsi_latex_result kvsi_latex_compare(const char *a, const char *b);

#endif
