/* serve/access.h - who may use the server.
 *
 * Keys: with a file of keys, every route but the public ones needs one of them, as a bearer token
 * or in X-Api-Key.  Keys are compared by their hashes, in a time that does not depend on them.
 *
 * Hosts: a server on a loopback address, or with --allowed-host, answers only requests that are
 * addressed to it by a known name.  Otherwise a web page whose name resolves to this machine could
 * use it.  Requests of web pages of other origins are always refused. */
#ifndef KVSI_SERVE_ACCESS_H
#define KVSI_SERVE_ACCESS_H

#include "serve/refusal.h"

enum { KVSI_KEYS_MAX = 64, KVSI_KEY_BYTES = 512 };

typedef struct kvsi_access kvsi_access;

/* Reads the keys, one on each line; key_file NULL = none is needed.  Without keys a host that is
 * not this machine alone is refused. */
kvs_status kvsi_access_create(kvsi_access **out, const char *host, const char *key_file,
                              const char *const *allowed_hosts, size_t allowed_count, kvs_err *err);
void kvsi_access_free(kvsi_access *access);

int kvsi_is_loopback(const char *host);

/* Returns the number of the key, from 1; 0 = no such key. */
size_t kvsi_access_find_key(const kvsi_access *access, const char *key);

/* The headers of a request that matter here; NULL = the request has no such header. */
typedef struct kvsi_credentials {
    const char *host, *origin, *authorization, *api_key;
} kvsi_credentials;

/* Checks a request.  *key receives the number of its key, 0 if none is needed. */
kvs_status kvsi_access_check(size_t *key, const kvsi_access *access,
                             const kvsi_credentials *credentials, int is_public,
                             kvsi_refusal *refusal);

#endif
