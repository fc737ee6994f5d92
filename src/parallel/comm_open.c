/* Detects whether an MPI launcher started this process, and loads MPI only then: a plain command
 * needs no MPI library. */
#include "base/files.h"
#include "base/memory.h"
#include "parallel/comm.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef KVSI_MODULE_DIR
#define KVSI_MODULE_DIR "" /* where the module is installed; empty = built without MPI */
#define KVSI_MODULE_FROM_BIN ""
#endif

/* ---- the launcher ---- */

/* Number of processes that the launcher started; 0 = unknown. */
static size_t launched(void)
{
    static const char *const names[] = {
        "OMPI_COMM_WORLD_SIZE", /* Open MPI's mpirun */
        "PMI_SIZE",             /* MPICH's and Intel's mpirun */
        "SLURM_STEP_NUM_TASKS", /* srun */
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        const unsigned long count = value ? strtoul(value, NULL, 10) : 0;

        if (count > 0)
            return count;
    }
    return 0;
}

size_t kvs_comm_launched_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                        "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);

        if (value)
            return strtoul(value, NULL, 10);
    }
    return 0;
}

/* Other PMIx launchers do not set the number of processes. */
static int may_have_others(size_t count)
{
    return count > 1 || (count == 0 && getenv("PMIX_RANK"));
}

/* ---- the module ---- */

/* Any object of this library, to ask which file it was loaded from. */
static const char here = 0;

/* The folder of the library, or of the program that it is linked into; kvsi_free.  dladdr() gives a
 * program by argv[0], which need not be a path, hence /proc/self/exe. */
static char *own_folder(void)
{
    char program[4096];
    Dl_info info;
    ssize_t size;

    if (dladdr(&here, &info) != 0 && info.dli_fname && info.dli_fname[0] == '/')
        return kvsi_path_parent(info.dli_fname);
    size = readlink("/proc/self/exe", program, sizeof program - 1);
    if (size < 0)
        return NULL;
    program[size] = '\0';
    return kvsi_path_parent(program);
}

/* Path of the module in dir/folder if it exists; kvsi_free. */
static char *find_below(const char *dir, const char *folder)
{
    char *place = dir ? kvsi_path_join(dir, folder) : kvsi_strdup(folder);
    char *path = place ? kvsi_path_join(place, KVSI_COMM_MODULE) : NULL;

    kvsi_free(place);
    if (path && kvsi_file_exists(path))
        return path;
    kvsi_free(path);
    return NULL;
}

/* Searches next to the library; relative to the command's folder, for an installation that was
 * moved; and in the installation folder.  NULL or kvsi_free. */
static char *find_module(void)
{
    char *own = own_folder(), *path;

    if (strcmp(KVSI_MODULE_DIR, "") == 0) {
        kvsi_free(own);
        return NULL;
    }
    path = own ? find_below(own, ".") : NULL;
    if (!path && own)
        path = find_below(own, KVSI_MODULE_FROM_BIN);
    if (!path)
        path = find_below(NULL, KVSI_MODULE_DIR);
    kvsi_free(own);
    return path;
}

int kvs_comm_has_mpi(void)
{
    char *path = find_module();
    const int found = path != NULL;

    kvsi_free(path);
    return found;
}

static kvs_status fail_without(size_t count, const char *why, kvs_err *err)
{
    if (count > 1)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "started as one of %zu processes, but %s", count,
                         why);
    return kvsi_fail(err, KVS_E_UNSUPPORTED, "started by an MPI launcher, but %s", why);
}

/* MPI's plugins need MPI's symbols to be global, hence RTLD_GLOBAL. */
static kvs_status load_module(kvs_comm *comm, size_t count, kvsi_comm_open_call **open,
                              kvs_err *err)
{
    char *path = find_module();
    const char *why;
    char reason[400];

    if (!path)
        return fail_without(count,
                            "this kvshift has no MPI; install libopenmpi-dev and openmpi-bin and "
                            "build it again",
                            err);
    comm->module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    kvsi_free(path);
    if (comm->module)
        *open = (kvsi_comm_open_call *)dlsym(comm->module, KVSI_COMM_ENTRY);
    if (*open)
        return KVS_OK;
    why = dlerror();
    if (!why)
        why = "unknown reason";
    snprintf(reason, sizeof reason, "MPI cannot be loaded (%.200s); install openmpi-bin", why);
    return fail_without(count, reason, err);
}

/* With a launcher that does not match the MPI library, every process would train alone. */
static kvs_status check_count(const kvs_comm *comm, size_t count, kvs_err *err)
{
    if (count <= 1 || comm->size == count)
        return KVS_OK;
    return kvsi_fail(err, KVS_E_UNSUPPORTED,
                     "a launcher started %zu processes, but MPI found %zu; start them with the "
                     "mpirun of the MPI that kvshift was built with, or with srun --mpi=pmix",
                     count, comm->size);
}

kvs_status kvs_comm_open(kvs_comm **out, kvs_err *err)
{
    const size_t count = launched();
    kvs_comm *comm;
    kvsi_comm_open_call *open = NULL;
    kvs_status st;

    NEED(out);
    *out = NULL;
    comm = kvsi_alloc(1, sizeof *comm);
    if (!comm)
        return kvsi_no_memory(err, "the ranks");
    *comm = kvsi_comm_self;
    if (may_have_others(count)) {
        TRY_OUT(load_module(comm, count, &open, err));
        if (open)
            TRY_OUT(open(comm, err));
        TRY_OUT(check_count(comm, count, err));
        TRY_OUT(kvsi_comm_find_hosts(comm, err));
    }
    *out = comm;
    return KVS_OK;
out:
    kvs_comm_close(comm);
    return st;
}

/* The module stays loaded: MPI registers exit handlers. */
void kvs_comm_close(kvs_comm *comm)
{
    if (!comm)
        return;
    comm->ops->close(comm->self);
    kvsi_free(comm->hosts);
    kvsi_free(comm->cores);
    kvsi_free(comm);
}
