/* Builds a corpus folder from text files in two passes.
 *
 * The first pass counts documents, which determines the split: a document is for validation if the
 * hash of the seed and its number is below the fraction.  If that leaves a split empty, the
 * document with the smallest (or largest) hash goes there; a single document is cut in two.  The
 * second pass encodes.  Both passes stream: memory holds a piece of a document and its ids. */
#include "base/checksum.h"
#include "base/documents.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/new_folder.h"
#include "base/sized.h"
#include "base/spool.h"
#include "base/text.h"
#include "base/text_files.h"
#include "data/corpus.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { SHARD_DOCUMENTS = 1 << 22 }; /* bounds the starts that a writer keeps in memory */

typedef struct build {
    const kvsi_corpus_plan *plan;
    kvsi_new_folder folder;
    kvsi_corpus_record record;
    kvs_tokenizer *tokenizer;
    int32_t eos; /* added after each document; -1 = none */
    kvs_corpus_progress progress;

    /* set by the first pass */
    uint64_t documents;
    uint64_t text_bytes;
    int inside;            /* the last piece did not end its document */
    int has_crlf, has_bom; /* of the current file */
    size_t crlf_files, bom_files;
    uint64_t
        forced[KVSI_SPLITS]; /* the document for a split that would be empty; UINT64_MAX = none */

    /* the second pass */
    uint64_t document;            /* number of the current document */
    uint64_t at;                  /* bytes of it read so far */
    uint64_t cut;                 /* split by position: where validation starts */
    uint64_t length[KVSI_SPLITS]; /* tokens of the document being written */
    kvsi_shard_writer *writers[KVSI_SPLITS];
} build;

typedef kvs_status (*piece_callback)(build *b, const kvsi_document_piece *piece, kvs_err *err);

static const kvs_corpus_build_options defaults = {
    .size = sizeof defaults,
    .field = KVSI_DEFAULT_FIELD,
    .separator = KVSI_DEFAULT_SEPARATOR,
    .valid = 0.05,
    .seed = 1,
    .shard_tokens = UINT64_C(1) << 28,
};

void kvs_corpus_build_options_init(kvs_corpus_build_options *options, size_t size)
{
    kvsi_sized_init(options, size, &defaults, sizeof defaults);
}

void kvsi_corpus_plan_init(kvsi_corpus_plan *plan)
{
    *plan = (kvsi_corpus_plan){.tokenizer = "bytes", .how = defaults};
}

static kvs_status check_plan(const kvsi_corpus_plan *plan, kvs_err *err)
{
    if (plan->count < 1)
        return kvsi_fail(err, KVS_E_INVALID, "a corpus needs at least 1 text file");
    if (!(plan->how.valid >= 0 && plan->how.valid < 1))
        return kvsi_fail(err, KVS_E_INVALID,
                         "validation fraction is '%g', expected at least 0 and below 1",
                         plan->how.valid);
    if (plan->how.seed > INT64_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "seed is '%llu', expected at most %lld",
                         (unsigned long long)plan->how.seed, (long long)INT64_MAX);
    if (plan->how.shard_tokens < 1)
        return kvsi_fail(err, KVS_E_INVALID, "tokens per shard is '0', expected at least 1");
    return KVS_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static kvs_status report(build *b, kvs_err *err)
{
    if (b->plan->how.progress && b->plan->how.progress(b->plan->how.user, &b->progress) != 0)
        return kvsi_fail(err, KVS_E_STOPPED, "stopped on request; no corpus was written");
    return KVS_OK;
}

/* The first pass records the file's size and checksum; the second compares them. */
static kvs_status record_source(build *b, size_t index, const kvsi_documents *documents,
                                kvs_err *err)
{
    kvsi_source_record *source = &b->record.sources[index];
    const uint64_t bytes = kvsi_documents_bytes(documents);
    const uint64_t checksum = kvsi_documents_checksum(documents);

    if (b->progress.counting) {
        source->bytes = bytes;
        source->checksum = checksum;
        b->crlf_files += (size_t)b->has_crlf;
        b->bom_files += (size_t)b->has_bom;
        b->has_crlf = b->has_bom = 0;
    } else if (source->bytes != bytes || source->checksum != checksum) {
        return kvsi_fail(err, KVS_E_IO, "'%s' changed while it was read", source->name);
    }
    return KVS_OK;
}

static kvs_status read_file(build *b, size_t index, piece_callback callback, kvs_err *err)
{
    const uint64_t before = b->progress.bytes;
    kvsi_documents *documents = NULL;
    int found = 0;
    kvs_status st;

    TRY_OUT(kvsi_documents_open(&documents, b->plan->files[index], b->plan->how.field,
                                b->plan->how.separator, err));
    for (;;) {
        kvsi_document_piece piece;

        TRY_OUT(kvsi_documents_next(documents, &piece, &found, err));
        if (!found)
            break;
        TRY_OUT(callback(b, &piece, err));
        b->progress.bytes = before + kvsi_documents_bytes(documents);
        b->progress.documents += (uint64_t)piece.last;
        TRY_OUT(report(b, err));
    }
    b->progress.bytes = before + kvsi_documents_bytes(documents);
    TRY_OUT(record_source(b, index, documents, err));
out:
    kvsi_documents_close(documents);
    return st;
}

static kvs_status read_files(build *b, int counting, piece_callback callback, kvs_err *err)
{
    b->progress = (kvs_corpus_progress){.counting = counting, .size = b->progress.size};
    for (size_t i = 0; i < b->plan->count; i++)
        TRY(read_file(b, i, callback, err));
    return report(b, err);
}

static kvs_status name_sources(build *b, kvs_err *err)
{
    const kvsi_corpus_plan *plan = b->plan;

    b->record.sources = kvsi_alloc(plan->count, sizeof *b->record.sources);
    if (!b->record.sources)
        return kvsi_no_memory(err, "%zu files", plan->count);
    for (size_t i = 0; i < plan->count; i++) {
        struct stat info;

        if (stat(plan->files[i], &info) != 0)
            return kvsi_fail_errno(err, "open", plan->files[i]);
        b->record.sources[i].name = kvsi_strdup(kvsi_spool_name(plan->files[i]));
        if (!b->record.sources[i].name)
            return kvsi_no_memory(err, "'%s'", plan->files[i]);
        b->record.source_count++;
        b->progress.size += (uint64_t)info.st_size;
    }
    return KVS_OK;
}

/* ---- the split ------------------------------------------------------------------------------- */

static int holds_crlf(const char *text, size_t size)
{
    const char *end = text + size;

    for (const char *at = text; size > 0 && (at = memchr(at, '\r', (size_t)(end - at))); at++)
        if (at + 1 < end && at[1] == '\n')
            return 1;
    return 0;
}

static kvs_status count_piece(build *b, const kvsi_document_piece *piece, kvs_err *err)
{
    static const char bom[] = "\xef\xbb\xbf";

    (void)err;
    if (!b->inside && piece->size >= sizeof bom - 1 &&
        memcmp(piece->text, bom, sizeof bom - 1) == 0)
        b->has_bom = 1;
    b->has_crlf = b->has_crlf || holds_crlf(piece->text, piece->size);
    b->inside = !piece->last;
    b->documents += (uint64_t)piece->last;
    b->text_bytes += piece->size;
    return KVS_OK;
}

/* CRLF line ends and byte-order marks become tokens, which is rarely intended. */
static void report_texts(const build *b)
{
    kvsi_text line = {0};

    if (!b->plan->how.notice || b->crlf_files + b->bom_files == 0)
        return;
    if (b->crlf_files > 0)
        kvsi_text_format(&line, "CRLF line ends in %zu of %zu files", b->crlf_files,
                         b->plan->count);
    if (b->bom_files > 0)
        kvsi_text_format(&line, "%sa byte-order mark in %zu of %zu files",
                         b->crlf_files > 0 ? ", " : "", b->bom_files, b->plan->count);
    kvsi_text_add(&line, "; they are kept and become tokens (dos2unix removes them)");
    if (!line.failed)
        b->plan->how.notice(b->plan->how.user, line.data);
    kvsi_text_release(&line);
}

double kvsi_split_hash(uint64_t seed, uint64_t document)
{
    const uint64_t key[2] = {seed, document};

    return (double)(kvsi_checksum(key, sizeof key) >> 11) * 0x1p-53;
}

static kvs_split split_of(const build *b, uint64_t document)
{
    if (b->record.info.rule != KVS_SPLIT_BY_DOCUMENT || document == b->forced[KVS_SPLIT_TRAIN])
        return KVS_SPLIT_TRAIN;
    if (document == b->forced[KVS_SPLIT_VALID] ||
        kvsi_split_hash(b->plan->how.seed, document) < b->plan->how.valid)
        return KVS_SPLIT_VALID;
    return KVS_SPLIT_TRAIN;
}

/* With few documents a split can be empty by chance. */
static void force_split(build *b)
{
    uint64_t least = 0, greatest = 0;
    double low = 1, high = 0;

    for (uint64_t d = 0; d < b->documents; d++) {
        const double hash = kvsi_split_hash(b->plan->how.seed, d);

        least = hash < low ? d : least;
        low = hash < low ? hash : low;
        greatest = hash > high ? d : greatest;
        high = hash > high ? hash : high;
    }
    if (low >= b->plan->how.valid)
        b->forced[KVS_SPLIT_VALID] = least;
    if (high < b->plan->how.valid)
        b->forced[KVS_SPLIT_TRAIN] = greatest;
}

static kvs_status decide_split(build *b, kvs_err *err)
{
    kvs_corpus_info *info = &b->record.info;
    const double valid = b->plan->how.valid;

    info->valid = valid;
    info->seed = b->plan->how.seed;
    b->forced[KVS_SPLIT_TRAIN] = b->forced[KVS_SPLIT_VALID] = UINT64_MAX;
    if (b->documents == 0 && b->plan->count == 1)
        return kvsi_fail(err, KVS_E_INVALID, "'%s' contains no text", b->plan->files[0]);
    if (b->documents == 0)
        return kvsi_fail(err, KVS_E_INVALID, "the %zu files contain no text", b->plan->count);
    if (!(valid > 0)) {
        info->rule = KVS_SPLIT_NONE;
    } else if (b->documents == 1) {
        info->rule = KVS_SPLIT_BY_POSITION;
        b->cut = (uint64_t)((1 - valid) * (double)b->text_bytes);
    } else {
        info->rule = KVS_SPLIT_BY_DOCUMENT;
        force_split(b);
    }
    return KVS_OK;
}

/* ---- shards ---------------------------------------------------------------------------------- */

/* The name of the split's next shard. */
static void name_shard(char name[KVSI_SHARD_NAME], const build *b, kvs_split split)
{
    snprintf(name, KVSI_SHARD_NAME, "%s-%05zu.shard", kvsi_split_names[split],
             b->record.info.split[split].shards);
}

static kvs_status open_writer(build *b, kvs_split split, kvs_err *err)
{
    const kvs_corpus_info *info = &b->record.info;
    char name[KVSI_SHARD_NAME], *path;
    kvs_status st;

    name_shard(name, b, split);
    path = kvsi_path_join(b->folder.temporary, name);
    if (!path)
        return kvsi_no_memory(err, "'%s'", name);
    st = kvsi_shard_writer_open(&b->writers[split], path, info->vocab, info->tokenizer_hash, err);
    kvsi_free(path);
    return st;
}

static kvs_status close_writer(build *b, kvs_split split, kvs_err *err)
{
    kvsi_shard_writer *writer = b->writers[split];
    kvsi_shard_record shard = {.tokens = kvsi_shard_writer_tokens(writer),
                               .documents = kvsi_shard_writer_documents(writer)};

    name_shard(shard.name, b, split);
    b->writers[split] = NULL;
    TRY(kvsi_shard_writer_commit(writer, &shard.checksum, err));
    return kvsi_corpus_record_add_shard(&b->record, split, &shard, err);
}

static kvs_status write_ids(build *b, kvs_split split, const int32_t *ids, size_t count,
                            kvs_err *err)
{
    if (count == 0)
        return KVS_OK;
    if (!b->writers[split])
        TRY(open_writer(b, split, err));
    TRY(kvsi_shard_writer_add(b->writers[split], ids, count, err));
    b->length[split] += count;
    b->progress.tokens += count;
    return KVS_OK;
}

static kvs_status encode(build *b, kvs_split split, const char *text, size_t size, kvs_err *err)
{
    int32_t *ids = NULL;
    size_t count = 0;
    kvs_status st;

    if (size == 0)
        return KVS_OK;
    TRY_OUT(
        kvs_tokenizer_encode(&ids, &count, b->tokenizer, text, size, KVS_ENCODE_NO_SPECIAL, err));
    TRY_OUT(write_ids(b, split, ids, count, err));
out:
    kvs_ids_free(ids);
    return st;
}

/* A shard ends at the end of the document that fills it. */
static kvs_status end_document(build *b, kvs_split split, kvs_err *err)
{
    kvs_split_info *info = &b->record.info.split[split];
    kvsi_shard_writer *writer = b->writers[split];

    info->longest = b->length[split] > info->longest ? b->length[split] : info->longest;
    b->length[split] = 0;
    if (!writer)
        return KVS_OK;
    kvsi_shard_writer_end_document(writer);
    if (kvsi_shard_writer_tokens(writer) < b->plan->how.shard_tokens &&
        kvsi_shard_writer_documents(writer) < SHARD_DOCUMENTS)
        return KVS_OK;
    return close_writer(b, split, err);
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* A single document: the part before the cut is for training.  *split = the split at the end of the
 * piece. */
static kvs_status encode_by_position(build *b, const kvsi_document_piece *piece, kvs_split *split,
                                     kvs_err *err)
{
    size_t before = 0;

    *split = b->at < b->cut && b->at + piece->size <= b->cut ? KVS_SPLIT_TRAIN : KVS_SPLIT_VALID;
    if (*split == KVS_SPLIT_VALID && b->at < b->cut) {
        before = kvsi_text_cut(piece->text, piece->size, (size_t)(b->cut - b->at));
        TRY(encode(b, KVS_SPLIT_TRAIN, piece->text, before, err));
        TRY(end_document(b, KVS_SPLIT_TRAIN, err));
    }
    return encode(b, *split, piece->text + before, piece->size - before, err);
}

static kvs_status encode_piece(build *b, const kvsi_document_piece *piece, kvs_err *err)
{
    kvs_split split = split_of(b, b->document);

    if (b->record.info.rule == KVS_SPLIT_BY_POSITION)
        TRY(encode_by_position(b, piece, &split, err));
    else
        TRY(encode(b, split, piece->text, piece->size, err));
    b->at += piece->size;
    if (!piece->last)
        return KVS_OK;
    TRY(write_ids(b, split, &b->eos, b->eos >= 0, err));
    TRY(end_document(b, split, err));
    b->document++;
    b->at = 0;
    return KVS_OK;
}

/* ---- the tokenizer --------------------------------------------------------------------------- */

/* Loads the saved copy beside the shards, so that ids and hash are those of the file that users
 * get. */
static kvs_status keep_tokenizer(build *b, kvs_err *err)
{
    char *path = NULL;
    kvs_status st = KVS_OK;

    b->record.info.tokenizer = "bytes";
    if (strcmp(b->plan->tokenizer, "bytes") == 0)
        return KVS_OK;
    path = kvsi_path_join(b->folder.temporary, kvsi_tokenizer_file);
    if (!path)
        return kvsi_no_memory(err, "'%s'", kvsi_tokenizer_file);
    TRY_OUT(kvs_tokenizer_save(b->tokenizer, path, err));
    kvs_tokenizer_free(b->tokenizer);
    b->tokenizer = NULL;
    TRY_OUT(kvs_tokenizer_load(&b->tokenizer, path, err));
    b->record.info.tokenizer = kvsi_tokenizer_file;
out:
    kvsi_free(path);
    return st;
}

static kvs_status choose_eos(build *b, kvs_err *err)
{
    const kvs_eos wanted = b->plan->how.eos;

    b->eos = wanted == KVS_EOS_NO ? -1 : kvs_tokenizer_eos(b->tokenizer);
    if (wanted == KVS_EOS_YES && b->eos < 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "tokenizer '%s' has no EOS token to add after documents",
                         b->plan->tokenizer);
    b->record.info.eos = b->eos >= 0;
    return KVS_OK;
}

static kvs_status describe_tokenizer(build *b, kvs_err *err)
{
    kvs_corpus_info *info = &b->record.info;

    info->vocab = kvs_tokenizer_vocab(b->tokenizer);
    info->id_bytes = kvsi_shard_id_bytes(info->vocab);
    info->tokenizer_hash = kvs_tokenizer_hash(b->tokenizer);
    if (info->tokenizer_hash == 0)
        return kvsi_no_memory(err, "the hash of a tokenizer");
    return KVS_OK;
}

/* ---- building -------------------------------------------------------------------------------- */

static kvs_status check_tokens(const build *b, kvs_err *err)
{
    const kvs_split_info *train = &b->record.info.split[KVS_SPLIT_TRAIN];
    const kvs_split_info *valid = &b->record.info.split[KVS_SPLIT_VALID];
    const unsigned long long all = train->tokens + valid->tokens;

    if (all < 2)
        return kvsi_fail(err, KVS_E_INVALID, "the text has %llu token%s, expected at least 2", all,
                         all == 1 ? "" : "s");
    if (train->longest < 2)
        return kvsi_fail(err, KVS_E_INVALID,
                         "the training split has %llu token%s, expected a document of at least 2",
                         (unsigned long long)train->tokens, train->tokens == 1 ? "" : "s");
    if (b->plan->how.valid > 0 && valid->longest < 2)
        return kvsi_fail(err, KVS_E_INVALID,
                         "the validation split has %llu token%s, expected a document of at least "
                         "2: use more text or a fraction above %g",
                         (unsigned long long)valid->tokens, valid->tokens == 1 ? "" : "s",
                         b->plan->how.valid);
    return KVS_OK;
}

static kvs_status fill_folder(build *b, kvs_err *err)
{
    char *path = NULL;
    kvs_status st;

    TRY_OUT(keep_tokenizer(b, err));
    TRY_OUT(describe_tokenizer(b, err));
    TRY_OUT(read_files(b, 0, encode_piece, err));
    for (int s = 0; s < KVSI_SPLITS; s++)
        if (b->writers[s])
            TRY_OUT(close_writer(b, (kvs_split)s, err));
    TRY_OUT(check_tokens(b, err));
    path = kvsi_path_join(b->folder.temporary, "corpus.json");
    if (!path)
        st = kvsi_no_memory(err, "'corpus.json'");
    else
        TRY_OUT(kvsi_corpus_record_write(&b->record, path, err));
out:
    kvsi_free(path);
    return st;
}

/* Everything that can fail before the folder is created is checked first. */
static kvs_status prepare(build *b, kvs_err *err)
{
    TRY(check_plan(b->plan, err));
    TRY(kvs_tokenizer_load(&b->tokenizer, b->plan->tokenizer, err));
    TRY(choose_eos(b, err));
    return name_sources(b, err);
}

static int is_part_of_corpus(const char *name)
{
    const size_t length = strlen(name), ending = strlen(".shard");

    if (strcmp(name, "corpus.json") == 0 || strcmp(name, kvsi_tokenizer_file) == 0)
        return 1;
    return length > ending && strcmp(name + length - ending, ".shard") == 0;
}

static const kvsi_folder_kind corpus_folder = {"corpus", "corpus.json", is_part_of_corpus};

kvs_status kvsi_corpus_build(const kvsi_corpus_plan *plan, const char *dir, kvs_err *err)
{
    build b = {.plan = plan};
    kvs_status st;

    TRY_OUT(prepare(&b, err));
    TRY_OUT(kvsi_new_folder_begin(&b.folder, dir, &corpus_folder, plan->how.overwrite, err));
    TRY_OUT(read_files(&b, 1, count_piece, err));
    TRY_OUT(decide_split(&b, err));
    report_texts(&b);
    TRY_OUT(fill_folder(&b, err));
    st = kvsi_new_folder_commit(&b.folder, err);
out:
    for (int s = 0; s < KVSI_SPLITS; s++)
        kvsi_shard_writer_abandon(b.writers[s]);
    kvsi_new_folder_abandon(&b.folder);
    kvs_tokenizer_free(b.tokenizer);
    kvsi_corpus_record_release(&b.record);
    return st;
}

kvs_status kvs_corpus_build(const char *dir, const char *const *files, size_t count,
                            const char *tokenizer, const kvs_corpus_build_options *options,
                            kvs_err *err)
{
    kvsi_text_files texts = {0};
    kvsi_corpus_plan plan;
    kvs_status st;

    NEED(dir);
    NEED_ARRAY(files, count);
    NEED(tokenizer);
    kvsi_corpus_plan_init(&plan);
    plan.tokenizer = tokenizer;
    TRY(kvsi_sized_read(&plan.how, sizeof plan.how, options, "kvs_corpus_build_options", err));
    for (size_t i = 0; i < count; i++)
        NEED(files[i]);
    if (plan.how.eos < KVS_EOS_AUTO || plan.how.eos > KVS_EOS_YES)
        return kvsi_fail(err, KVS_E_INVALID, "eos is %d, expected KVS_EOS_AUTO, _NO or _YES",
                         (int)plan.how.eos);
    TRY(kvsi_text_files_list(&texts, files, count, err));
    plan.files = (const char *const *)texts.paths;
    plan.count = texts.count;
    st = kvsi_corpus_build(&plan, dir, err);
    kvsi_text_files_release(&texts);
    return st;
}
