/* base/clock.h - monotonic time. */
#ifndef KVSI_BASE_CLOCK_H
#define KVSI_BASE_CLOCK_H

double kvsi_clock_seconds(void); /* since an arbitrary moment; use differences */

#endif
