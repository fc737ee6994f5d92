#include "cli/options/config_file.h"

#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"

#include <string.h>

/* Checks that the file is UTF-8 without control characters, line by line, to report the first bad
 * line. */
static kvs_status check_text(const char *path, const char *data, size_t size, kvs_err *err)
{
    const char *const end = data + size;
    size_t number = 1;

    for (const char *line = data; line < end; number++) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const size_t length = (size_t)((newline ? newline : end) - line);
        json_t *valid;

        for (size_t i = 0; i < length; i++) {
            const unsigned char c = (unsigned char)line[i];
            const int ends_line = c == '\r' && newline && i + 1 == length;

            if ((c < 0x20 && c != '\t' && !ends_line) || c == 0x7f)
                return kvsi_fail(err, KVS_E_FORMAT, "%s:%zu: expected text, found byte 0x%02x",
                                 path, number, c);
        }
        valid = json_stringn(line, length);
        if (!valid && kvsi_json_check(path, err) != KVS_OK)
            return KVS_E_NOMEM;
        if (!valid)
            return kvsi_fail(err, KVS_E_FORMAT, "%s:%zu: expected UTF-8, found other bytes", path,
                             number);
        json_decref(valid);
        line = newline ? newline + 1 : end;
    }
    return KVS_OK;
}

static int is_json(const char *path, const char *text)
{
    const size_t length = strlen(path);

    return (length > 5 && strcmp(path + length - 5, ".json") == 0) ||
           text[strspn(text, " \t\r\n")] == '{';
}

kvs_status kvsi_config_file_read(const char *path, kvsi_config_callback *take, void *user,
                                 kvs_err *err)
{
    static const char mark[] = "\xef\xbb\xbf"; /* byte-order mark of UTF-8 */
    kvsi_config_reader r = {.path = path, .line = 1, .take = take, .user = user};
    char *data = NULL;
    size_t size = 0;
    kvs_status st;

    TRY_OUT(kvsi_file_read(&data, &size, path, KVSI_CONFIG_FILE_LIMIT, err));
    TRY_OUT(check_text(path, data, size, err));
    r.at = strncmp(data, mark, sizeof mark - 1) == 0 ? data + sizeof mark - 1 : data;
    r.end = data + size;
    st = is_json(path, r.at) ? kvsi_config_read_json(&r, err) : kvsi_config_read_toml(&r, err);
out:
    kvsi_free(data);
    return st;
}
