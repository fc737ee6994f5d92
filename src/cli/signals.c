#include "cli/signals.h"

#include "base/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

static volatile sig_atomic_t stop_signal, save_signal, interrupted;

static void note_stop(int number)
{
    stop_signal = number;
}

static void note_save(int number)
{
    save_signal = number;
}

/* A signal that was ignored when the program started stays ignored: nohup ignores SIGHUP, and
 * shells ignore SIGINT for jobs in the background. */
static void catch_unless_ignored(int number, int flags)
{
    struct sigaction action = {.sa_handler = note_stop, .sa_flags = SA_RESTART | flags}, before;

    sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

void kvsi_catch_stop(void)
{
    catch_unless_ignored(SIGINT, (int)SA_RESETHAND);
    catch_unless_ignored(SIGTERM, (int)SA_RESETHAND);
    /* These two may come again while the command saves: a lost terminal sends SIGHUP from the shell
     * and from the kernel, and every line written to a closed pipe sends SIGPIPE. */
    catch_unless_ignored(SIGHUP, 0);
    catch_unless_ignored(SIGPIPE, 0);
}

int kvsi_stop_signal(void)
{
    return stop_signal;
}

const char *kvsi_stop_signal_name(void)
{
    switch (stop_signal) {
    case SIGINT:
        return "SIGINT";
    case SIGTERM:
        return "SIGTERM";
    case SIGHUP:
        return "SIGHUP";
    case SIGPIPE:
        return "SIGPIPE";
    default:
        return "no signal";
    }
}

void kvsi_catch_save(void)
{
    struct sigaction action = {.sa_handler = note_save, .sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
}

int kvsi_take_save_signal(void)
{
    const int noted = save_signal != 0;

    save_signal = 0;
    return noted;
}

/* The kernel may run the handler in any thread, also in one of the pool, and then a wait of the
 * main thread goes on.  So the handler writes a byte to a pipe, and the wait watches its other
 * end. */
static int wake_read = -1, wake_write = -1;

static void note_interrupt(int number)
{
    const int before = errno;

    interrupted = number;
    if (write(wake_write, "", 1) < 0)
        errno = before; /* the pipe is full of such bytes */
}

static kvs_status open_wake_pipe(kvs_err *err)
{
    int ends[2];

    if (pipe(ends) != 0)
        return kvsi_fail(err, KVS_E_IO, "cannot make a pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++)
        if (fcntl(ends[i], F_SETFD, FD_CLOEXEC) != 0 || fcntl(ends[i], F_SETFL, O_NONBLOCK) != 0)
            return kvsi_fail(err, KVS_E_IO, "cannot set up a pipe: %s", strerror(errno));
    wake_read = ends[0];
    wake_write = ends[1];
    return KVS_OK;
}

kvs_status kvsi_catch_interrupts(kvs_err *err)
{
    /* Without SA_RESTART a write of the answer might fail. */
    struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = SA_RESTART};

    TRY(open_wake_pipe(err));
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    return KVS_OK;
}

int kvsi_wait_for_input(int fd)
{
    char bytes[64];

    while (!interrupted) {
        fd_set input;
        int ready;

        FD_ZERO(&input);
        FD_SET(fd, &input);
        FD_SET(wake_read, &input);
        ready = select((fd > wake_read ? fd : wake_read) + 1, &input, NULL, NULL, NULL);
        if (ready < 0 && errno != EINTR)
            return 1; /* reading will say what is wrong */
        if (ready > 0 && !FD_ISSET(wake_read, &input))
            return 1;
        while (read(wake_read, bytes, sizeof bytes) > 0) /* also bytes of interrupts taken before */
            continue;
    }
    return 0;
}

int kvsi_take_interrupt(void)
{
    const int noted = interrupted != 0;

    interrupted = 0;
    return noted;
}

/* Only functions that are safe in a signal handler: no stdio, no memory. */
static void put(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return; /* there is nobody to tell */
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    const char *path = kvsi_mapping_path(info->si_addr);

    (void)context;
    if (info->si_code != BUS_ADRERR) { /* not a mapped file: the default, a core dump */
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    put("kvshift: cannot read ");
    put(path ? "'" : "");
    put(path ? path : "a mapped file");
    put(path ? "'" : "");
    put(": it has become shorter while it was used, or its disk failed\n");
    _exit(1);
}

void kvsi_catch_lost_pages(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
