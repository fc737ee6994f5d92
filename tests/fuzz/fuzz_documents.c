/* Text files, plain, as JSON lines and as JSON arrays, also compressed. */
#include "base/documents.h"
#include "fuzz.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum { ZSTD = 3, GZIP = 5, KINDS = 6 }; /* first kinds of each compression */

static const char *const names[KINDS] = {"a.txt",     "a.jsonl",     "a.json",
                                         "a.txt.zst", "a.jsonl.zst", "a.json.gz"};

static kvs_status read_all(const char *path, const char *separator, kvs_err *err)
{
    kvsi_documents *documents;
    kvs_status st = kvsi_documents_open(&documents, path, "text", separator, err);
    kvsi_text copy = {0};
    int found = 1;

    while (st == KVS_OK && found) {
        kvsi_document_piece piece;

        st = kvsi_documents_next(documents, &piece, &found, err);
        copy.length = 0;
        if (st == KVS_OK && found)
            kvsi_text_add_bytes(&copy, piece.text, piece.size);
    }
    kvsi_text_release(&copy);
    kvsi_documents_close(documents);
    return st;
}

/* The first byte selects the kind, the rest is the file.  Inputs are short, since each byte can
 * expand to tens of thousands. */
kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    enum { LONGEST = 512 };
    const size_t kind = size > 0 ? (unsigned char)data[0] % KINDS : 0;
    kvs_status st;

    if (size == 0 || size > LONGEST)
        return KVS_OK;
    fuzz_write(names[kind], data + 1, size - 1);
    st = read_all(names[kind], "<|endoftext|>", err);
    return st == KVS_OK ? read_all(names[kind], "", err) : st;
}

static size_t gzip(char *out, size_t capacity, const char *text, size_t size)
{
    enum { FORMAT = 16, MEMORY = 8 };
    z_stream stream = {.next_in = (unsigned char *)text,
                       .avail_in = (uInt)size,
                       .next_out = (unsigned char *)out,
                       .avail_out = (uInt)capacity};
    int code = deflateInit2(&stream, 1, Z_DEFLATED, FORMAT + MAX_WBITS, MEMORY, Z_DEFAULT_STRATEGY);

    if (code == Z_OK)
        code = deflate(&stream, Z_FINISH);
    deflateEnd(&stream);
    fuzz_expect(code == Z_STREAM_END, "texts can be compressed");
    return capacity - stream.avail_out;
}

static void seed(size_t kind, const char *text)
{
    const char first = (char)('0' + kind);
    char packed[256];
    size_t size = strlen(text);
    kvsi_text input = {0};

    put_bytes(&input, &first, 1);
    if (kind >= GZIP) {
        size = gzip(packed, sizeof packed, text, size);
        text = packed;
    } else if (kind >= ZSTD) {
        size = ZSTD_compress(packed, sizeof packed, text, size, 1);
        fuzz_expect(!ZSTD_isError(size), "texts can be compressed");
        text = packed;
    }
    put_bytes(&input, text, size);
    fuzz_seed(names[kind], &input);
}

void fuzz_seeds(void)
{
    static const char text[] = "one<|endoftext|>\ntwo<|endoftext|>\r\n\xc3\xa9<|endoftext|>";
    static const char lines[] = "{\"text\": \"one\"}\n\n{\"text\": \"\\u00e9\", \"n\": 1}\n"
                                "{\"text\": \"\"}\n{\"text\": \"\xc3\xa9\"}";

    static const char array[] = "[{\"text\": \"one\"},\n {\"text\": \"{\\\"\", \"n\": [1]}]\n";
    static const char *const texts[KINDS] = {text, lines, array, text, lines, array};

    for (size_t kind = 0; kind < KINDS; kind++)
        seed(kind, texts[kind]);
}
