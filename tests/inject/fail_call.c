/* A library to preload: one system call of the process fails.
 *
 *     FAIL_CALL=KIND:N LD_PRELOAD=fail_call.so kvshift ...     the N-th call of this kind, from 1
 *     FAIL_CALL=KIND:N+                                        that one and all after it
 *     FAIL_CALL_COUNT=FILE                                     how many there were, at the end
 *
 * KIND is a name of the table below; "short" halves the bytes of a read or write, and "kill" ends
 * the process before a call that changes files.  Writes to standard error never fail, so that the
 * message can be read.
 *
 * epoll_ctl never fails: libmicrohttpd ends the process if a descriptor cannot be removed, which
 * the kernel always does.
 *
 * Calls that the C library makes by itself, as for stdio, must fail too, so its functions are not
 * replaced.  A seccomp filter stops every system call of the chosen kind with SIGSYS, unless it
 * comes from run_call() below, and the handler runs it there or fails it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <unistd.h>

#ifndef __x86_64__
#error "the registers of system calls are written for x86-64"
#endif

enum { SHORT = -1, KILL = -2 };

static const struct {
    const char *kind;
    int number, error;
} table[] = {
    {"open", SYS_open, EMFILE},       {"open", SYS_openat, EMFILE},
    {"read", SYS_read, EIO},          {"read", SYS_pread64, EIO},
    {"read", SYS_readv, EIO},         {"read", SYS_getdents64, EIO},
    {"write", SYS_write, ENOSPC},     {"write", SYS_pwrite64, ENOSPC},
    {"write", SYS_writev, ENOSPC},    {"write", SYS_ftruncate, ENOSPC},
    {"write", SYS_fallocate, ENOSPC}, {"write", SYS_mkdir, ENOSPC},
    {"write", SYS_symlink, ENOSPC},   {"short", SYS_read, SHORT},
    {"short", SYS_pread64, SHORT},    {"short", SYS_write, SHORT},
    {"short", SYS_pwrite64, SHORT},   {"fsync", SYS_fsync, EIO},
    {"fsync", SYS_fdatasync, EIO},    {"rename", SYS_rename, EIO},
    {"rename", SYS_renameat, EIO},    {"rename", SYS_renameat2, EIO},
    {"rename", SYS_link, EIO},        {"remove", SYS_unlink, EACCES},
    {"remove", SYS_unlinkat, EACCES}, {"remove", SYS_rmdir, EACCES},
    {"mmap", SYS_mmap, ENOMEM},       {"stat", SYS_stat, EIO},
    {"stat", SYS_fstat, EIO},         {"stat", SYS_lstat, EIO},
    {"stat", SYS_newfstatat, EIO},    {"stat", SYS_statx, EIO},
    {"stat", SYS_lseek, EIO},         {"stat", SYS_access, EIO},
    {"stat", SYS_readlink, EIO},      {"stat", SYS_flock, ENOLCK},
    {"net", SYS_socket, EMFILE},      {"net", SYS_bind, EADDRINUSE},
    {"net", SYS_listen, EADDRINUSE},  {"net", SYS_setsockopt, EIO},
    {"net", SYS_accept4, EMFILE},     {"net", SYS_recvfrom, ECONNRESET},
    {"net", SYS_recvmsg, ECONNRESET}, {"net", SYS_sendto, EPIPE},
    {"net", SYS_sendmsg, EPIPE},      {"net", SYS_pipe2, EMFILE},
    {"net", SYS_eventfd2, EMFILE},    {"kill", SYS_write, KILL},
    {"kill", SYS_pwrite64, KILL},     {"kill", SYS_fsync, KILL},
    {"kill", SYS_rename, KILL},       {"kill", SYS_openat, KILL},
    {"kill", SYS_mkdir, KILL},        {"kill", SYS_symlink, KILL},
    {"kill", SYS_unlink, KILL},       {"kill", SYS_unlinkat, KILL},
    {"kill", SYS_rmdir, KILL},
};
enum { ROWS = sizeof table / sizeof *table };

static char chosen[16];
static long failing; /* 0 = none */
static int from_there_on;
static atomic_long calls;

/* run_call(number, six arguments): the system call itself, and its result: -errno if it fails. */
long run_call(long number, long a, long b, long c, long d, long e, long f)
    __attribute__((visibility("hidden")));
extern const char run_call_end[] __attribute__((visibility("hidden")));
__asm__(".text\n"
        ".hidden run_call\n.globl run_call\n.type run_call, @function\n"
        "run_call:\n"
        "    movq %rdi, %rax\n    movq %rsi, %rdi\n    movq %rdx, %rsi\n    movq %rcx, %rdx\n"
        "    movq %r8, %r10\n    movq %r9, %r8\n    movq 8(%rsp), %r9\n"
        "    syscall\n"
        ".hidden run_call_end\n.globl run_call_end\n"
        "run_call_end:\n"
        "    ret\n");

static int row_of(long number)
{
    for (int i = 0; i < ROWS; i++)
        if (table[i].number == number && strcmp(table[i].kind, chosen) == 0)
            return i;
    return -1;
}

/* Events that wake a thread: the kernel never fails to count them, and the thread would sleep. */
static int is_event(long fd)
{
    static const char event[] = "anon_inode:[eventfd]";
    char path[32], target[sizeof event] = "";

    snprintf(path, sizeof path, "/proc/self/fd/%ld", fd);
    run_call(SYS_readlink, (long)(intptr_t)path, (long)(intptr_t)target, sizeof target - 1, 0, 0,
             0);
    return strcmp(target, event) == 0;
}

static long fail_or_run(long number, const greg_t *r)
{
    const long a = r[REG_RDI], b = r[REG_RSI], d = r[REG_R10], e = r[REG_R8], f = r[REG_R9];
    const int row = row_of(number);
    long c = r[REG_RDX], nth;

    if (row < 0 || ((number == SYS_write || number == SYS_writev) && a == STDERR_FILENO) ||
        ((number == SYS_write || number == SYS_read) && is_event(a)))
        return run_call(number, a, b, c, d, e, f);
    nth = atomic_fetch_add(&calls, 1) + 1;
    if (failing > 0 && (nth == failing || (from_there_on && nth > failing))) {
        if (table[row].error == KILL)
            run_call(SYS_exit_group, 137, 0, 0, 0, 0, 0);
        if (table[row].error > 0)
            return -table[row].error;
        c = c > 1 ? c / 2 : c; /* SHORT */
    }
    return run_call(number, a, b, c, d, e, f);
}

static void on_call(int signal_number, siginfo_t *info, void *data)
{
    ucontext_t *context = data;
    greg_t *registers = context->uc_mcontext.gregs;

    (void)signal_number;
    registers[REG_RAX] = fail_or_run(info->si_syscall, registers);
}

static void stop_calls(void)
{
    const uint64_t end = (uintptr_t)run_call_end;
    const struct sigaction action = {.sa_sigaction = on_call,
                                     .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    struct sock_filter filter[16 + ROWS];
    struct sock_fprog program = {.filter = filter};
    unsigned short n = 0;

#define LOAD(member)                                                                               \
    (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define IF_EQUAL(value, yes, no)                                                                   \
    (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), yes, no)
#define RETURN(value) (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, value)
    filter[n++] = LOAD(instruction_pointer);
    filter[n++] = IF_EQUAL(end, 0, 3);
    filter[n++] = (struct sock_filter)BPF_STMT(
        BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4);
    filter[n++] = IF_EQUAL(end >> 32, 0, 1);
    filter[n++] = RETURN(SECCOMP_RET_ALLOW);
    filter[n++] = LOAD(nr);
    for (int i = 0; i < ROWS; i++)
        if (strcmp(table[i].kind, chosen) == 0) {
            filter[n++] = IF_EQUAL(table[i].number, 0, 1);
            filter[n++] = RETURN(SECCOMP_RET_TRAP);
        }
    filter[n++] = RETURN(SECCOMP_RET_ALLOW);
    program.len = n;
    if (sigaction(SIGSYS, &action, NULL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("fail_call: no filter for system calls");
        _exit(126);
    }
}

__attribute__((constructor)) static void begin(void)
{
    const char *which = getenv("FAIL_CALL"), *colon = which ? strchr(which, ':') : NULL;
    char *end;

    if (!colon || (size_t)(colon - which) >= sizeof chosen)
        return;
    memcpy(chosen, which, (size_t)(colon - which));
    failing = strtol(colon + 1, &end, 10);
    from_there_on = *end == '+';
    stop_calls();
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("FAIL_CALL_COUNT");
    char text[32];
    long file, size;

    if (!path)
        return;
    size = snprintf(text, sizeof text, "%ld\n", atomic_load(&calls));
    file = run_call(SYS_openat, AT_FDCWD, (long)(intptr_t)path, O_WRONLY | O_CREAT | O_TRUNC, 0666,
                    0, 0);
    if (file >= 0)
        run_call(SYS_write, file, (long)(intptr_t)text, size, 0, 0, 0);
}
