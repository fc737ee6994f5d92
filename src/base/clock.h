/* base/clock.h - time that only goes forward. */
#ifndef KVSI_BASE_CLOCK_H
#define KVSI_BASE_CLOCK_H

double kvsi_clock_seconds(void); /* since some fixed moment; only differences mean anything */

#endif
