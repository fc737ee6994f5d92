#include "cli/signals.h"

#include "base/mapping.h"

#include <errno.h>
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

static void note_interrupt(int number)
{
    interrupted = number;
}

void kvsi_catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = note_interrupt};

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

int kvsi_wait_for_input(int fd)
{
    sigset_t blocked, before;
    fd_set input;
    int ready;

    /* SIGINT is delivered inside pselect only, so none falls between the test and the wait. */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    do {
        FD_ZERO(&input);
        FD_SET(fd, &input);
        ready = interrupted ? 0 : pselect(fd + 1, &input, NULL, NULL, NULL, &before);
    } while (ready < 0 && errno == EINTR && !interrupted);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return ready != 0;
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
