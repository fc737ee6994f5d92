/* llama2.c's tokenizer.bin: i32 length of the longest token; then per token f32 score, i32 length
 * and text.  Spaces are written as spaces.  BOS and EOS may have a newline on each side. */
#include "base/files.h"
#include "base/memory.h"
#include "tokenizer/tokenizer_files.h"

#include <string.h>

static uint32_t little_endian(const unsigned char *b)
{
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static int kind_of(const kvsi_sp_model *sp, const char *text, size_t size)
{
    const int64_t id = (int64_t)sp->count;

    if (id == sp->unknown)
        return KVSI_PIECE_UNKNOWN;
    if (id == sp->bos || id == sp->eos)
        return KVSI_PIECE_CONTROL;
    return kvsi_byte_piece(text, size) >= 0 ? KVSI_PIECE_BYTE : KVSI_PIECE_NORMAL;
}

/* Appends the token to `spelt`, with spaces as U+2581. */
static void spell(kvsi_text *spelt, const char *text, size_t size, int kind)
{
    if (kind == KVSI_PIECE_CONTROL && size > 2 && text[0] == '\n' && text[size - 1] == '\n') {
        text++;
        size -= 2;
    }
    for (size_t i = 0; i < size; i++) {
        if (text[i] == ' ')
            kvsi_text_add(spelt, "\xe2\x96\x81");
        else
            kvsi_text_add_bytes(spelt, text + i, 1);
    }
}

/* `spelt` may move while it grows, so the pieces' text pointers are set at the end. */
static kvs_status read_tokens(kvsi_sp_model *sp, kvsi_text *spelt, const char *data, size_t size,
                              const char *path, kvs_err *err)
{
    size_t at = 4, start = 0;
    kvs_status st = KVS_OK;

    kvsi_text_add(spelt, "");
    while (at < size) {
        kvsi_sp_piece piece;
        uint32_t length;

        if (size - at < 8)
            goto damaged;
        memcpy(&piece.score, data + at, 4);
        length = little_endian((const unsigned char *)data + at + 4);
        at += 8;
        if (length > size - at)
            goto damaged;
        piece.kind = kind_of(sp, data + at, length);
        spell(spelt, data + at, length, piece.kind);
        piece.text = NULL;
        piece.size = spelt->length - start;
        start = spelt->length;
        at += length;
        TRY_OUT(kvsi_text_check(spelt, err));
        TRY_OUT(kvsi_sp_model_add(sp, &piece, err));
    }
    for (size_t i = 0, from = 0; i < sp->count; from += sp->pieces[i++].size)
        sp->pieces[i].text = spelt->data + from;
out:
    return st;
damaged:
    return kvsi_fail(err, KVS_E_FORMAT, "'%s' is not a llama2.c tokenizer, or it is damaged", path);
}

kvs_status kvsi_tokenizer_load_llama2c(kvs_tokenizer **out, const char *path, kvs_err *err)
{
    kvsi_sp_model sp;
    kvsi_text spelt = {0};
    char *data = NULL;
    size_t size = 0;
    kvs_status st;

    *out = NULL;
    kvsi_sp_model_init(&sp);
    TRY_OUT(kvsi_file_read(&data, &size, path, KVSI_TOKENIZER_FILE_MAX, err));
    TRY_OUT(read_tokens(&sp, &spelt, data, size, path, err));
    TRY_OUT(kvsi_tokenizer_from_sp_model(out, &sp, path, err));
out:
    kvsi_free(sp.pieces);
    kvsi_text_release(&spelt);
    kvsi_free(data);
    return st;
}
