/* Free memory is the minimum of the limits of the system, control groups and the process. */
#include "base/files.h"
#include "base/machine.h"
#include "base/memory.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Writes a file below the root folder of the test. */
static void put(const char *root, const char *folder, const char *name, const char *text)
{
    char dir[512], path[640];
    int made;

    snprintf(dir, sizeof dir, "%s/%s", root, folder);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(kvsi_dir_make(dir, &made, NULL), KVS_OK);
    assert_int_equal(kvsi_file_write_text(path, text, NULL), KVS_OK);
}

static void drop(const char *root)
{
    char command[640];

    snprintf(command, sizeof command, "%s/proc/self/cgroup", root);
    unlink(command);
}

static void put_system(const char *root)
{
    put(root, "proc", "meminfo",
        "MemTotal:       24684000 kB\nMemFree:         1000 kB\nMemAvailable:   1000000 kB\n");
}

static void unknown_memory_is_no_number(void **state)
{
    char *root = support_make_dir();

    (void)state;
    assert_true(isnan(kvsi_machine_free_memory(root, 1)));
    support_remove_dir(root);
}

static void the_system_tells_and_processes_share(void **state)
{
    char *root = support_make_dir();

    (void)state;
    put_system(root);
    assert_true(kvsi_machine_free_memory(root, 1) == 1024e6);
    assert_true(kvsi_machine_free_memory(root, 4) == 256e6);
    assert_true(kvsi_machine_free_memory("", 1) > 0); /* this machine's own */
    put(root, "proc", "meminfo", "MemTotal: 1 kB\n");
    assert_true(isnan(kvsi_machine_free_memory(root, 1)));
    support_remove_dir(root);
}

/* The limits of all groups of the process count; page cache in them counts as free. */
static void groups_of_version_2_limit(void **state)
{
    char *root = support_make_dir();

    (void)state;
    put_system(root);
    put(root, "proc/self", "cgroup", "0::/a/b\n");
    put(root, "sys/fs/cgroup/a", "memory.max", "500000000\n");
    put(root, "sys/fs/cgroup/a", "memory.current", "300000000\n");
    assert_true(kvsi_machine_free_memory(root, 1) == 200e6);
    put(root, "sys/fs/cgroup/a", "memory.stat",
        "anon 5\nfile 7\ninactive_file 100000000\nactive_file 50000000\n");
    assert_true(kvsi_machine_free_memory(root, 1) == 350e6);
    put(root, "sys/fs/cgroup/a/b", "memory.max", "max\n");
    put(root, "sys/fs/cgroup/a/b", "memory.current", "300000000\n");
    assert_true(kvsi_machine_free_memory(root, 1) == 350e6);
    put(root, "sys/fs/cgroup/a/b", "memory.max", "300000000\n");
    assert_true(kvsi_machine_free_memory(root, 1) == 0);
    drop(root);
    assert_true(kvsi_machine_free_memory(root, 1) == 1024e6);
    support_remove_dir(root);
}

static void groups_of_version_1_limit(void **state)
{
    char *root = support_make_dir();

    (void)state;
    put_system(root);
    put(root, "proc/self", "cgroup", "5:cpu:/\n4:hugetlb,memory:/gone/in/here\n0::/\n");
    put(root, "sys/fs/cgroup/memory", "memory.limit_in_bytes", "9223372036854771712\n");
    put(root, "sys/fs/cgroup/memory", "memory.usage_in_bytes", "100000000\n");
    assert_true(kvsi_machine_free_memory(root, 1) == 1024e6);
    put(root, "sys/fs/cgroup/memory", "memory.limit_in_bytes", "600000000\n");
    put(root, "sys/fs/cgroup/memory", "memory.stat",
        "inactive_file 1\ntotal_inactive_file 30000000\ntotal_active_file 20000000\n");
    assert_true(kvsi_machine_free_memory(root, 1) == 550e6);
    support_remove_dir(root);
}

/* The remaining address space of the process, which it does not share. */
static void the_limit_of_a_process_counts(void **state)
{
    const rlim_t huge = (rlim_t)1 << 52; /* more than any process uses, even with sanitizers */
    char *root = support_make_dir(), text[64];
    struct rlimit before, limit;

    (void)state;
    put_system(root);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = (struct rlimit){.rlim_cur = huge, .rlim_max = before.rlim_max};
    snprintf(text, sizeof text, "%llu 1 1\n",
             (unsigned long long)(huge / (rlim_t)sysconf(_SC_PAGESIZE) - 100));
    put(root, "proc/self", "statm", text);
    assert_true(kvsi_machine_free_memory(root, 4) == 256e6);
    if (setrlimit(RLIMIT_AS, &limit) == 0) {
        assert_true(kvsi_machine_free_memory(root, 4) == 100 * (double)sysconf(_SC_PAGESIZE));
        assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    }
    support_remove_dir(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_memory_is_no_number),
        cmocka_unit_test(the_system_tells_and_processes_share),
        cmocka_unit_test(groups_of_version_2_limit),
        cmocka_unit_test(groups_of_version_1_limit),
        cmocka_unit_test(the_limit_of_a_process_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
