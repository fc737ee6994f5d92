/* Session files.  They end with a checksum, which is corrected for inputs that are refused only for
 * it, so that the code behind it is reached. */
#include "base/checksum.h"
#include "fuzz.h"

#include <stdio.h>
#include <string.h>

static kvs_model *model(void)
{
    static kvs_model *made;

    if (!made)
        made = fuzz_model(&(kvs_model_config){SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 2),
                                              .layers = 2, .kv_heads = 1, .sliding_window = 2,
                                              .sliding_layers = 2});
    return made;
}

/* Feeds, forks and rewinds. */
static void go_on(kvs_session *session)
{
    float logits[16];
    const int32_t id = 1;
    kvs_session *fork;

    if (kvs_session_copy(&fork, session, SIZE_MAX, NULL, NULL) == KVS_OK)
        kvs_session_feed(fork, &id, 1, logits, NULL);
    kvs_session_free(fork);
    if (kvs_session_length(session) > 0) {
        kvs_session_logits(logits, session, NULL);
        kvs_session_rewind(session, kvs_session_length(session) - 1, NULL);
    }
    kvs_session_feed(session, &id, 1, logits, NULL);
    fuzz_expect(kvs_session_save(session, "again", NULL) == KVS_OK, "sessions can be saved");
}

static kvs_status load(kvs_err *err)
{
    kvs_session *session;
    const kvs_status st = kvs_session_load(&session, model(), "file", NULL, err);

    if (st == KVS_OK)
        go_on(session);
    kvs_session_free(session);
    return st;
}

/* The message contains the computed checksum; it replaces the one in the file. */
static int set_sum(kvsi_text *file, const kvs_err *err)
{
    static const char before[] = "its sum is '";
    const char *found = strstr(err->message, before);
    char sum[KVSI_CHECKSUM_TEXT];

    if (!found)
        return 0;
    snprintf(sum, sizeof sum, "%s", found + strlen(before));
    return fuzz_overwrite(file, "\"checksum\":\"", sum);
}

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    kvs_status st;

    fuzz_write("file", data, size);
    st = load(err);
    if (st != KVS_OK) {
        kvsi_text file = {0};

        put_bytes(&file, data, size);
        if (set_sum(&file, err)) {
            fuzz_write("file", file.data, file.length);
            st = load(err);
        }
        kvsi_text_release(&file);
    }
    return st;
}

static void seed(const char *name, size_t length, kvs_dtype cache)
{
    static const int32_t ids[] = {0, 1, 2, 3, 4, 3};
    const kvs_session_options options = {.size = sizeof(kvs_session_options), .cache = cache};
    kvs_session *session;
    kvsi_text input = {0};

    fuzz_expect(kvs_session_create(&session, model(), &options, NULL) == KVS_OK &&
                    kvs_session_feed(session, ids, length, NULL, NULL) == KVS_OK &&
                    kvs_session_save(session, "saved", NULL) == KVS_OK,
                "a session can be saved");
    fuzz_put_file(&input, "saved");
    fuzz_seed(name, &input);
    kvs_session_free(session);
}

void fuzz_seeds(void)
{
    seed("empty", 0, KVS_DTYPE_F32);
    seed("one", 1, KVS_DTYPE_F32);
    seed("six", 6, KVS_DTYPE_F32);
    seed("six-halves", 6, KVS_DTYPE_F16);
}
