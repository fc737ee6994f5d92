/* device.h - a backend whose memory is not the host's, for tests.
 *
 * Its addresses are in a range without access; operations translate them to the memory
 * behind and run the reference kernels there.  So everything outside the backend that reads or
 * writes backend memory ends in SIGSEGV, and an operation that is given host memory, released
 * memory or an array that is too short fails the running test.  Downloads arrive at the next sync,
 * and not before.  Results have the bits of the reference backend. */
#ifndef KVSI_TESTS_DEVICE_H
#define KVSI_TESTS_DEVICE_H

#include "support.h"

typedef struct device device;

device *device_create(void);
void device_free(device *d); /* fails the test if a block was not released */

/* A runtime that runs on the device, with one thread; free it before the device. */
kvs_runtime *device_runtime(device *d);

/* Operations so far, uploads and copies included. */
size_t device_operations(const device *d);
/* Makes operation number `index`, counted from now, and all later ones fail; SIZE_MAX = none, and
 * clears an earlier failure. */
void device_fail_at(device *d, size_t index);

#endif
