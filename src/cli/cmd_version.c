/* kvshift version: the build, and what it can use on this machine; for bug reports. */
#include "base/program.h"
#include "cli/cli.h"
#include "kvshift/kvshift_mpi.h"

#include <stdio.h>

typedef struct version_settings {
    int json;
} version_settings;

static const kvsi_setting rows[] = {
    {.name = "json",
     .kind = KVSI_SETTING_FLAG,
     .offset = offsetof(version_settings, json),
     .group = "Options",
     .help = "print one JSON object"},
};

static const kvsi_command_options options = {
    .command = "kvshift version",
    .purpose = "Prints what this build is and what it can use on this machine.",
    .notes = "The lines:\n"
             "  commit: the commit of the source that was built\n"
             "  compiler: the C compiler and its version\n"
             "  BLAS: the library for matrix products, which is kvshift's own\n"
             "  OpenMP: the version of the standard for threads, as year and month\n"
             "  threads: the number that a command uses without --threads\n"
             "  CPU level: the instructions that are used without --cpu-level\n"
             "  levels: all levels of this build, and what the processor lacks for them\n"
             "  gnuplot: whether figures can be drawn (report --html, --svg)\n"
             "  MPI: whether 'mpirun kvshift train' can use several processes or machines\n"
             "  HTTP: whether the build has the server (kvshift serve)",
    .tables = KVSI_OPTIONS(rows),
};

/* Parts that a build or a machine may not have. */
typedef struct optional_part {
    const char *name;
    int present;
} optional_part;

enum { OPTIONAL_PARTS = 3 };

static void find_optional_parts(optional_part parts[OPTIONAL_PARTS])
{
    parts[0] = (optional_part){"gnuplot", kvsi_program_found("gnuplot")};
    parts[1] = (optional_part){"MPI", kvs_comm_has_mpi()};
#ifdef KVSI_HAVE_MICROHTTPD
    parts[2] = (optional_part){"HTTP", 1};
#else
    parts[2] = (optional_part){"HTTP", 0};
#endif
}

static const char *yes_no(int yes)
{
    return yes ? "yes" : "no";
}

static void print_people(const kvs_runtime *rt)
{
    const kvs_build_info *build = kvs_build();
    optional_part parts[OPTIONAL_PARTS];
    const char *level;

    printf("kvshift %s (commit %s)\n", build->version, build->commit);
    printf("compiler    %s\n", build->compiler);
    printf("BLAS        %s\n", KVSI_CLI_BLAS);
    printf("OpenMP      %s\n", build->openmp);
    printf("threads     %d\n", kvs_runtime_threads(rt));
    printf("CPU level   %s\n", kvs_runtime_cpu_level(rt));
    for (size_t i = 0; (level = kvs_cpu_level_name(i, NULL)) != NULL; i++) {
        const char *missing = kvs_cpu_level_missing(i);

        printf("%s%s%s%s", i ? ", " : "levels      ", level, missing ? " no: " : " yes",
               missing ? missing : "");
    }
    printf("\n");
    find_optional_parts(parts);
    printf("optional   ");
    for (size_t i = 0; i < OPTIONAL_PARTS; i++)
        printf("%s %s %s", i ? "," : "", parts[i].name, yes_no(parts[i].present));
    printf("\n");
}

json_t *kvsi_cli_version_json(const kvs_runtime *rt)
{
    const kvs_build_info *build = kvs_build();
    json_t *levels = json_array(), *optional = json_object();
    optional_part parts[OPTIONAL_PARTS];
    const char *level;
    int usable;

    for (size_t i = 0; (level = kvs_cpu_level_name(i, &usable)) != NULL; i++)
        json_array_append_new(levels, json_pack("{s:s, s:b, s:s?}", "name", level, "usable", usable,
                                                "missing", kvs_cpu_level_missing(i)));
    find_optional_parts(parts);
    for (size_t i = 0; i < OPTIONAL_PARTS; i++)
        json_object_set_new(optional, parts[i].name, json_boolean(parts[i].present));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:o, s:o}", "version", build->version,
                     "commit", build->commit, "compiler", build->compiler, "blas", KVSI_CLI_BLAS,
                     "openmp", build->openmp, "threads", kvs_runtime_threads(rt), "cpu_level",
                     kvs_runtime_cpu_level(rt), "cpu_levels", levels, "optional", optional);
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    const version_settings *s = data;
    kvs_runtime *rt = NULL;
    kvs_status st;

    (void)call;
    TRY_OUT(kvs_runtime_create(&rt, NULL, err));
    if (s->json)
        TRY_OUT(kvsi_cli_print_json(kvsi_cli_version_json(rt), err));
    else
        print_people(rt);
out:
    kvs_runtime_free(rt);
    return st;
}

const kvsi_command kvsi_cmd_version = {
    .name = "version",
    .summary = "print what this build is and what it can use here",
    .options = &options,
    .settings_size = sizeof(version_settings),
    .run = run,
};
