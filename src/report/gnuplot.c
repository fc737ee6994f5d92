#include "report/gnuplot.h"

#include "base/program.h"

static const size_t SVG_LIMIT = (size_t)64 << 20;

kvs_status kvsi_gnuplot_draw(char **svg, const kvsi_text *script, kvs_err *err)
{
    static const char *const argv[] = {"gnuplot", "-d", "-", NULL};

    *svg = NULL;
    if (!kvsi_program_found("gnuplot"))
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "gnuplot is needed for the curves; install the package 'gnuplot-nox'");
    TRY(kvsi_text_check(script, err));
    return kvsi_program_filter(svg, argv, script->data, SVG_LIMIT, err);
}

void kvsi_gnuplot_begin(kvsi_text *script, const char *id, double width, double height, int font)
{
    kvsi_text_format(script,
                     "set terminal svg noenhanced size %.0f,%.0f name '%s' font 'sans-serif,%d' "
                     "background '#ffffff'\nset encoding utf8\n",
                     width, height, id, font);
}

void kvsi_gnuplot_style(kvsi_text *script)
{
    kvsi_text_add(script, "set border 3 linecolor rgb '#7f7f7f'\n"
                          "set tics nomirror out scale 0.6 textcolor rgb '#595959'\n"
                          "set grid ytics linetype 1 linewidth 0.6 linecolor rgb '#bfbfbf'\n");
}

void kvsi_gnuplot_place(kvsi_text *script, double left, double right, double top, double bottom)
{
    kvsi_text_format(script,
                     "set lmargin at screen %.5f\nset rmargin at screen %.5f\n"
                     "set tmargin at screen %.5f\nset bmargin at screen %.5f\n",
                     left, right, top, bottom);
}

/* In single quotes only the quote itself is special. */
void kvsi_gnuplot_quote(kvsi_text *script, const char *text)
{
    kvsi_text_add(script, "'");
    for (; *text; text++) {
        if (*text == '\'')
            kvsi_text_add(script, "''");
        else
            kvsi_text_add_bytes(script, (unsigned char)*text < 0x20 ? " " : text, 1);
    }
    kvsi_text_add(script, "'");
}

const char *kvsi_gnuplot_colour(size_t index)
{
    static const char *const colours[] = {"0072b2", "d55e00", "009e73",
                                          "cc79a7", "e69f00", "56b4e9"};

    return index == KVSI_GREY ? "888888" : colours[index % (sizeof colours / sizeof *colours)];
}
