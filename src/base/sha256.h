/* base/sha256.h - SHA-256 (FIPS 180-4), as lowercase hexadecimal digits. */
#ifndef KVSI_BASE_SHA256_H
#define KVSI_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { KVSI_SHA256_TEXT = 65 }; /* 64 digits and a NUL */

typedef struct kvsi_sha256 {
    uint32_t state[8];
    uint64_t bytes;          /* added so far */
    unsigned char block[64]; /* the last bytes % 64 of them */
} kvsi_sha256;

void kvsi_sha256_start(kvsi_sha256 *hash);
void kvsi_sha256_add(kvsi_sha256 *hash, const void *data, size_t size);
/* Writes the digits of all that was added.  Start again before the next use. */
void kvsi_sha256_finish(kvsi_sha256 *hash, char out[KVSI_SHA256_TEXT]);

/* All three in one call. */
void kvsi_sha256_of(char out[KVSI_SHA256_TEXT], const void *data, size_t size);

#endif
