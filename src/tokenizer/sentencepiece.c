/* SentencePiece's tokenizer.model, a protocol buffer:
 *
 *   1: pieces, each {1: text, 2: score (float), 3: kind}
 *   2: trainer {3: algorithm, 24: spaces as suffixes, 35: byte fallback, 40: unknown, 41: BOS,
 *               42: EOS, ...}
 *   3: normalizer {1: name, 2: character map, 3: dummy prefix, 4: remove extra spaces,
 *                  5: escape spaces} */
#include "base/files.h"
#include "base/memory.h"
#include "tokenizer/tokenizer_files.h"

#include <string.h>

enum { ALGORITHM_BPE = 2 };

typedef struct message {
    const unsigned char *at, *end;
} message;

/* A field: a number or four bytes in `number`, or a byte string. */
typedef struct field {
    uint64_t id, number;
    message bytes;
} field;

typedef struct model {
    kvsi_sp_model sp;
    uint64_t algorithm;
    int keeps_spaces, spaces_behind;
} model;

/* ---- fields ---------------------------------------------------------------------------------- */

static int take_varint(message *m, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const unsigned char byte = *m->at++;

        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return 1;
    }
    return 0;
}

static int take_fixed(message *m, size_t size, uint64_t *out)
{
    if ((size_t)(m->end - m->at) < size)
        return 0;
    *out = 0;
    for (size_t i = size; i-- > 0;)
        *out = *out << 8 | m->at[i];
    m->at += size;
    return 1;
}

/* Returns 0 if malformed. */
static int take_field(message *m, field *f)
{
    uint64_t tag;

    *f = (field){0};
    if (!take_varint(m, &tag))
        return 0;
    f->id = tag >> 3;
    switch (tag & 7) {
    case 0:
        return take_varint(m, &f->number);
    case 1:
        return take_fixed(m, 8, &f->number);
    case 2:
        if (!take_varint(m, &f->number) || f->number > (uint64_t)(m->end - m->at))
            return 0;
        f->bytes = (message){m->at, m->at + f->number};
        m->at += f->number;
        return 1;
    case 5:
        return take_fixed(m, 4, &f->number);
    default:
        return 0;
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

static int read_piece(kvsi_sp_piece *piece, message m)
{
    *piece = (kvsi_sp_piece){.kind = KVSI_PIECE_NORMAL};
    while (m.at < m.end) {
        uint32_t bits;
        field f;

        if (!take_field(&m, &f))
            return 0;
        bits = (uint32_t)f.number;
        if (f.id == 1) {
            piece->text = (const char *)f.bytes.at;
            piece->size = (size_t)(f.bytes.end - f.bytes.at);
        } else if (f.id == 2) {
            memcpy(&piece->score, &bits, sizeof piece->score);
        } else if (f.id == 3) {
            piece->kind = f.number <= KVSI_PIECE_BYTE ? (int)f.number : 0;
        }
    }
    return piece->kind >= KVSI_PIECE_NORMAL;
}

static int read_trainer(model *out, message m)
{
    while (m.at < m.end) {
        field f;

        if (!take_field(&m, &f))
            return 0;
        switch (f.id) {
        case 3:
            out->algorithm = f.number;
            break;
        case 24:
            out->spaces_behind = f.number != 0;
            break;
        case 35:
            out->sp.byte_fallback = f.number != 0;
            break;
        case 40:
            out->sp.unknown = (int32_t)f.number;
            break;
        case 41:
            out->sp.bos = (int32_t)f.number;
            break;
        case 42:
            out->sp.eos = (int32_t)f.number;
            break;
        default:
            break;
        }
    }
    return 1;
}

static int read_normalizer(model *out, message m)
{
    while (m.at < m.end) {
        field f;

        if (!take_field(&m, &f))
            return 0;
        switch (f.id) {
        case 2:
            out->sp.character_map_size = (size_t)(f.bytes.end - f.bytes.at);
            out->sp.character_map = f.bytes.at < f.bytes.end ? (const char *)f.bytes.at : NULL;
            break;
        case 3:
            out->sp.add_dummy_prefix = f.number != 0;
            break;
        case 4:
            out->sp.remove_extra_spaces = f.number != 0;
            break;
        case 5:
            out->keeps_spaces = f.number == 0;
            break;
        default:
            break;
        }
    }
    return 1;
}

static kvs_status read_model(model *out, message m, const char *path, kvs_err *err)
{
    while (m.at < m.end) {
        kvsi_sp_piece piece;
        kvs_status st = KVS_OK;
        field f;
        int good = take_field(&m, &f);

        if (good && f.id == 1 && (good = read_piece(&piece, f.bytes)) != 0)
            st = kvsi_sp_model_add(&out->sp, &piece, err);
        else if (good && f.id == 2)
            good = read_trainer(out, f.bytes);
        else if (good && f.id == 3)
            good = read_normalizer(out, f.bytes);
        if (!good)
            return kvsi_fail(err, KVS_E_FORMAT,
                             "'%s' is not a SentencePiece model, or it is damaged", path);
        if (st != KVS_OK)
            return st;
    }
    return KVS_OK;
}

static kvs_status refuse(const model *in, const char *path, kvs_err *err)
{
    const char *what = in->algorithm != ALGORITHM_BPE ? "an algorithm other than BPE"
                       : in->keeps_spaces             ? "spaces that are not escaped"
                       : in->spaces_behind            ? "spaces as suffixes"
                                                      : NULL;

    return what ? kvsi_fail(err, KVS_E_UNSUPPORTED,
                            "'%s': a SentencePiece model with %s is not supported", path, what)
                : KVS_OK;
}

kvs_status kvsi_tokenizer_load_sentencepiece(kvs_tokenizer **out, const char *path, kvs_err *err)
{
    model in = {.algorithm = 1};
    kvsi_tokenizer_config config_files = {0};
    char *data = NULL;
    size_t size = 0;
    kvs_status st;

    *out = NULL;
    kvsi_sp_model_init(&in.sp);
    in.sp.remove_extra_spaces = 1; /* SentencePiece's default */
    in.sp.byte_fallback = 0;
    TRY_OUT(kvsi_file_read(&data, &size, path, KVSI_TOKENIZER_FILE_MAX, err));
    TRY_OUT(
        read_model(&in, (message){(unsigned char *)data, (unsigned char *)data + size}, path, err));
    TRY_OUT(refuse(&in, path, err));
    TRY_OUT(kvsi_tokenizer_config_open(&config_files, path, "tokenizer.model", err));
    TRY_OUT(kvsi_tokenizer_config_apply(&config_files, &in.sp, err));
    TRY_OUT(kvsi_tokenizer_from_sp_model(out, &in.sp, path, err));
out:
    kvsi_tokenizer_config_close(&config_files);
    kvsi_free(in.sp.pieces);
    kvsi_free(data);
    return st;
}
