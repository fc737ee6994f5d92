/* SentencePiece's tokenizer.model. */
#include "fuzz.h"

#include <string.h>

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    fuzz_write("tokenizer.model", data, size);
    return fuzz_use_tokenizer("tokenizer.model", data, size, err);
}

/* A field of the protocol buffer, shorter than 128 bytes. */
static void put_field(kvsi_text *out, unsigned char tag, const void *data, size_t size)
{
    const unsigned char head[2] = {tag, (unsigned char)size};

    put_bytes(out, head, 2);
    put_bytes(out, data, size);
}

static void put_piece(kvsi_text *out, const char *text, float score, char kind)
{
    const char type[2] = {0x18, kind};
    kvsi_text piece = {0};

    put_field(&piece, 0x0a, text, strlen(text));
    put_bytes(&piece, "\x15", 1);
    put_bytes(&piece, &score, sizeof score);
    put_bytes(&piece, type, 2);
    put_field(out, 0x0a, piece.data, piece.length);
    kvsi_text_release(&piece);
}

static void put_pieces(kvsi_text *out)
{
    static const char *const pieces[] = {"<unk>", "<s>", "</s>",   "\xe2\x96\x81", "a",
                                         "b",     "aa",  "<0x0A>", "<b>"};
    static const char kinds[] = {2, 3, 3, 1, 1, 1, 1, 6, 4};

    for (size_t i = 0; i < sizeof kinds; i++)
        put_piece(out, pieces[i], (float)-(int)i, kinds[i]);
}

/* The character map: a trie of one entry, then its replacement. */
static void put_normalizer(kvsi_text *out)
{
    static const char map[] = "\4\0\0\0\0\0\0\0x";
    kvsi_text normalizer = {0};

    put_field(&normalizer, 0x12, map, sizeof map);
    put_bytes(&normalizer, "\x18\1\x20\1\x28\1", 6);
    put_field(out, 0x1a, normalizer.data, normalizer.length);
    kvsi_text_release(&normalizer);
}

void fuzz_seeds(void)
{
    kvsi_text file = {0};

    put_pieces(&file);
    put_field(&file, 0x12, "\x18\2", 2);
    put_field(&file, 0x1a, "\x18\0\x20\1", 4);
    fuzz_seed("plain", &file);
    put_pieces(&file);
    put_field(&file, 0x12, "\x18\2\x98\2\1\xc0\2\0\xc8\2\1\xd0\2\2", 14);
    put_normalizer(&file);
    fuzz_seed("bytes", &file);
}
