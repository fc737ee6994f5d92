#include "serve/access.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/sha256.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

struct kvsi_access {
    char keys[KVSI_KEYS_MAX][KVSI_SHA256_TEXT]; /* their hashes */
    size_t key_count;
    const char *host;
    const char *const *allowed; /* borrowed */
    size_t allowed_count;
    int checks_host;
};

/* A name that only looks like an address, such as 127.example.com, is not one of this machine. */
int kvsi_is_loopback(const char *host)
{
    struct in_addr four;
    struct in6_addr six;

    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, host, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six);
    return strcasecmp(host, "localhost") == 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static kvs_status add_key(kvsi_access *a, const char *key, size_t size, const char *path,
                          kvs_err *err)
{
    if (a->key_count == KVSI_KEYS_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "'%s' has more than %d keys", path, KVSI_KEYS_MAX);
    if (size > KVSI_KEY_BYTES)
        return kvsi_fail(err, KVS_E_INVALID, "'%s': a key has %zu bytes, expected at most %d", path,
                         size, KVSI_KEY_BYTES);
    for (size_t i = 0; i < size; i++)
        if (key[i] <= ' ' || key[i] > '~')
            return kvsi_fail(err, KVS_E_INVALID,
                             "'%s': key %zu has a blank or a character that is not ASCII", path,
                             a->key_count + 1);
    kvsi_sha256_of(a->keys[a->key_count++], key, size);
    return KVS_OK;
}

static kvs_status read_keys(kvsi_access *a, const char *path, kvs_err *err)
{
    char *text = NULL;
    size_t size;
    kvs_status st;

    TRY_OUT(kvsi_file_read(&text, &size, path, 1 << 20, err));
    for (const char *at = text; *at;) {
        const size_t line = strcspn(at, "\r\n");

        if (line > 0)
            TRY_OUT(add_key(a, at, line, path, err));
        at += line;
        at += strspn(at, "\r\n");
    }
    if (a->key_count == 0)
        st = kvsi_fail(err, KVS_E_INVALID, "'%s' has no key, expected one on each line", path);
out:
    if (text)
        memset(text, 0, size);
    kvsi_free(text);
    return st;
}

/* Looks at every character of every key. */
size_t kvsi_access_find_key(const kvsi_access *a, const char *key)
{
    char hash[KVSI_SHA256_TEXT];
    size_t number = 0;

    kvsi_sha256_of(hash, key, strlen(key));
    for (size_t k = 0; k < a->key_count; k++) {
        unsigned differs = 0;

        for (size_t i = 0; i + 1 < sizeof hash; i++)
            differs |= (unsigned)(unsigned char)(hash[i] ^ a->keys[k][i]);
        number |= (k + 1) * (size_t)(differs == 0);
    }
    return number;
}

/* ---- hosts ----------------------------------------------------------------------------------- */

/* Sets *size to that of the name in NAME or NAME:PORT, which may be in brackets; 0 = no name. */
static const char *name_of(const char *host, size_t *size)
{
    const char *end;

    *size = 0;
    if (*host == '[') {
        end = strchr(host, ']');
        if (!end || (end[1] != '\0' && end[1] != ':'))
            return host;
        host++;
    } else {
        end = host + strcspn(host, ":");
        if (*end == ':' && end[1 + strspn(end + 1, "0123456789")] != '\0')
            return host;
    }
    *size = (size_t)(end - host);
    return host;
}

static int is_name(const char *name, size_t size, const char *known)
{
    return strlen(known) == size && strncasecmp(name, known, size) == 0;
}

static int knows_host(const kvsi_access *a, const char *host)
{
    static const char *const own[] = {"localhost", "127.0.0.1", "::1"};
    size_t size;
    const char *name = name_of(host, &size);

    if (size == 0)
        return 0;
    for (size_t i = 0; i < 3; i++)
        if (is_name(name, size, own[i]))
            return 1;
    for (size_t i = 0; i < a->allowed_count; i++)
        if (is_name(name, size, a->allowed[i]))
            return 1;
    return is_name(name, size, a->host);
}

/* A page of the server itself has the request's host as its origin. */
static int is_own_origin(const char *origin, const char *host)
{
    const char *at = strstr(origin, "://");

    return at && host && strcasecmp(at + 3, host) == 0;
}

/* ---------------------------------------------------------------------------------------------- */

kvs_status kvsi_access_create(kvsi_access **out, const char *host, const char *key_file,
                              const char *const *allowed_hosts, size_t allowed_count, kvs_err *err)
{
    kvsi_access *a = kvsi_alloc(1, sizeof *a);
    kvs_status st = KVS_OK;

    *out = NULL;
    if (!a)
        return kvsi_no_memory(err, "the keys");
    a->host = host;
    a->allowed = allowed_hosts;
    a->allowed_count = allowed_count;
    a->checks_host = kvsi_is_loopback(host) || allowed_count > 0;
    if (key_file)
        TRY_OUT(read_keys(a, key_file, err));
    if (!key_file && !kvsi_is_loopback(host)) {
        st = kvsi_fail(err, KVS_E_INVALID,
                       "host '%s' can be reached from other machines, which needs --api-key-file",
                       host);
        goto out;
    }
    *out = a;
    a = NULL;
out:
    kvsi_access_free(a);
    return st;
}

void kvsi_access_free(kvsi_access *access)
{
    kvsi_free(access);
}

kvs_status kvsi_access_check(size_t *key, const kvsi_access *a, const kvsi_credentials *c,
                             int is_public, kvsi_refusal *refusal)
{
    const char *given = c->api_key;

    *key = 0;
    if (a->checks_host && (!c->host || !knows_host(a, c->host)))
        return kvsi_refuse(refusal, 403, "unknown_host", NULL,
                           "the header Host does not name this server");
    if (c->origin && !is_own_origin(c->origin, c->host))
        return kvsi_refuse(refusal, 403, "other_origin", NULL,
                           "requests of web pages of other origins are refused");
    if (is_public || a->key_count == 0)
        return KVS_OK;
    if (c->authorization && strncasecmp(c->authorization, "Bearer ", 7) == 0)
        given = c->authorization + 7 + strspn(c->authorization + 7, " ");
    if (!given)
        return kvsi_refuse(refusal, 401, "missing_api_key", NULL,
                           "an API key is required: Authorization: Bearer KEY");
    *key = kvsi_access_find_key(a, given);
    return *key > 0 ? KVS_OK
                    : kvsi_refuse(refusal, 401, "invalid_api_key", NULL, "the API key is wrong");
}
