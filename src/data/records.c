/* kvs_data_create_records: data from a file of conversations or documents, in memory.
 *
 * All sequences are stored end to end, with their targets.  A split is a list of sequences: those
 * of the records that a hash of the seed and the record's number assigns to it.  A conversation is
 * one sequence; a document is cut into windows as in corpus_data.c.  Nothing is packed into rows of
 * equal length, because batches are ragged: shift, attention and positions restart at each
 * sequence, and a short one takes only the time of its tokens. */
#include "base/array.h"
#include "base/checksum.h"
#include "base/documents.h"
#include "base/math.h"
#include "base/memory.h"
#include "base/sized.h"
#include "chat/value.h"
#include "data/batch.h"
#include "data/corpus.h"
#include "data/data.h"
#include "data/record_ids.h"
#include "data/shuffle.h"

#include <stdlib.h>

static const kvs_records_options defaults = {.size = sizeof defaults, .fraction = 0.05, .seed = 1};

typedef struct part {
    size_t *sequences; /* their numbers */
    size_t count, capacity;
    uint64_t targets, checksum; /* of the sequences */
} part;

typedef struct records_data {
    kvs_data base;
    char *path;
    int loss_all;
    kvs_records_info info;

    /* Sequence s is rows starts[s] .. starts[s + 1] - 1. */
    int32_t *ids, *targets;
    size_t *starts;
    size_t rows, count, ids_capacity, targets_capacity, starts_capacity;
    kvs_batch all; /* a view of them */
    part parts[KVSI_SPLITS];
} records_data;

/* A record that has sequences. */
typedef struct record {
    uint64_t number;   /* in its file */
    size_t first, end; /* its sequences */
    uint64_t tokens;
} record;

typedef struct reader {
    const kvs_records_options *how;
    kvsi_record_rules rules;
    records_data *data;
    kvsi_record_ids ids;
    record *records; /* of the current file */
    size_t count, capacity;
    uint64_t read; /* records of the file, also those without sequences */
} reader;

void kvs_records_options_init(kvs_records_options *options, size_t size)
{
    kvsi_sized_init(options, size, &defaults, sizeof defaults);
}

/* ---- the handle ------------------------------------------------------------------------------ */

static kvs_status draw(size_t *length, const kvs_data *base, kvsi_random *random, int32_t *ids,
                       int32_t *targets, uint8_t *scored, kvs_err *err)
{
    const records_data *data = (const records_data *)base;
    const kvs_split split = random->purpose == KVSI_RANDOM_EVAL ? KVS_SPLIT_VALID : KVS_SPLIT_TRAIN;
    const part *p = &data->parts[split];
    uint64_t number;

    *length = 0;
    if (p->count == 0)
        return kvsi_fail(err, KVS_E_INVALID, "'%s' has nothing to evaluate", data->path);
    number = random->index % p->count;
    if (split == KVS_SPLIT_TRAIN)
        number = kvsi_shuffle(random->seed, random->index / p->count, p->count, number);
    *length = kvsi_batch_copy(ids, targets, scored, &data->all, p->sequences[number]);
    return KVS_OK;
}

/* The checksums are those of the sequences, so that a checkpoint of other data, another tokenizer,
 * another template or another loss is recognized. */
static json_t *describe(const kvs_data *base)
{
    static const char *const kinds[] = {"text", "pairs", "messages"};
    const records_data *data = (const records_data *)base;
    const part *train = &data->parts[KVS_SPLIT_TRAIN], *valid = &data->parts[KVS_SPLIT_VALID];
    char sums[KVSI_SPLITS][KVSI_CHECKSUM_TEXT];

    for (int s = 0; s < KVSI_SPLITS; s++)
        kvsi_checksum_print(sums[s], data->parts[s].checksum);
    return json_pack(
        "{s:s, s:o, s:s, s:I, s:s, s:I, s:I, s:s, s:I, s:I, s:s}", "name", base->ops->name, "path",
        kvsi_json_path(data->path), "kind", kinds[data->info.kind], "vocab",
        (json_int_t)base->vocab, "loss", data->loss_all ? "all" : "answer", "train_sequences",
        (json_int_t)train->count, "train_targets", (json_int_t)train->targets, "train_checksum",
        sums[KVS_SPLIT_TRAIN], "valid_sequences", (json_int_t)valid->count, "valid_targets",
        (json_int_t)valid->targets, "valid_checksum", sums[KVS_SPLIT_VALID]);
}

static void release(kvs_data *base)
{
    records_data *data = (records_data *)base;

    for (int s = 0; s < KVSI_SPLITS; s++)
        kvsi_free(data->parts[s].sequences);
    kvsi_free(data->ids);
    kvsi_free(data->targets);
    kvsi_free(data->starts);
    kvsi_free(data->path);
    kvsi_free(data);
}

static const kvsi_data_ops records_ops = {
    .name = "records", .draw = draw, .describe = describe, .release = release};

/* ---- sequences ------------------------------------------------------------------------------- */

/* Appends a sequence of count - 1 rows; the target of a row is the next id.  has_loss[i] is that of
 * id i; NULL = all have one. */
static kvs_status add_sequence(records_data *d, const int32_t *ids, const uint8_t *has_loss,
                               size_t count, kvs_err *err)
{
    const size_t rows = count - 1;

    TRY(kvsi_array_reserve(&d->ids, &d->ids_capacity, d->rows + rows, sizeof *d->ids, err));
    TRY(kvsi_array_reserve(&d->targets, &d->targets_capacity, d->rows + rows, sizeof *d->targets,
                           err));
    TRY(kvsi_array_reserve(&d->starts, &d->starts_capacity, d->count + 2, sizeof *d->starts, err));
    for (size_t i = 0; i < rows; i++) {
        d->ids[d->rows + i] = ids[i];
        d->targets[d->rows + i] = !has_loss || has_loss[i + 1] ? ids[i + 1] : -1;
    }
    d->rows += rows;
    d->starts[++d->count] = d->rows;
    d->base.max_tokens = kvsi_max(d->base.max_tokens, rows);
    return KVS_OK;
}

static kvs_status add_record(reader *r, size_t first, uint64_t tokens, kvs_err *err)
{
    const record made = {
        .number = r->read++, .first = first, .end = r->data->count, .tokens = tokens};

    if (made.first == made.end)
        return KVS_OK;
    TRY(kvsi_array_reserve(&r->records, &r->capacity, r->count + 1, sizeof *r->records, err));
    r->records[r->count++] = made;
    return KVS_OK;
}

/* ---- conversations --------------------------------------------------------------------------- */

/* Adds the conversation up to its last token with a loss. */
static kvs_status add_conversation(reader *r, uint64_t line, kvs_err *err)
{
    records_data *d = r->data;
    const size_t first = d->count;
    size_t count = kvsi_min(r->ids.ids.count, r->rules.most);

    if (r->ids.is_cut && r->how->refuse_long)
        return kvsi_fail(err, KVS_E_LIMIT,
                         "'%s' line %llu: the conversation has more than %zu tokens", r->rules.path,
                         (unsigned long long)line, r->rules.most);
    d->info.longest = kvsi_max(d->info.longest, r->ids.ids.count);
    d->info.cut += (uint64_t)r->ids.is_cut;
    d->info.inside += r->ids.inside;
    while (count > 0 && !r->ids.has_loss[count - 1])
        count--;
    if (count >= 2)
        TRY(add_sequence(d, r->ids.ids.ids, r->ids.has_loss, count, err));
    else
        d->info.dropped++;
    return add_record(r, first, count, err);
}

static kvs_status read_conversations(reader *r, kvsi_documents *documents, kvs_err *err)
{
    json_t *object;

    kvsi_documents_limit_objects(documents, KVSI_CHAT_MESSAGES_MAX);
    for (;;) {
        TRY(kvsi_documents_next_object(documents, &object, err));
        if (!object)
            return KVS_OK;
        TRY(kvsi_record_check(&r->rules, object, kvsi_documents_line(documents), err));
        TRY(kvsi_record_encode(&r->ids, &r->rules, object, kvsi_documents_line(documents), err));
        TRY(add_conversation(r, kvsi_documents_line(documents), err));
    }
}

/* ---- documents ------------------------------------------------------------------------------- */

/* Cuts a document into windows that overlap in one id, which is a target and then fed. */
static kvs_status add_document(reader *r, const kvsi_ids *ids, kvs_err *err)
{
    const size_t first = r->data->count, length = r->how->length;

    for (size_t at = 0; at + 1 < ids->count; at += length)
        TRY(add_sequence(r->data, ids->ids + at, NULL, kvsi_min(ids->count - at, length + 1), err));
    return add_record(r, first, ids->count, err);
}

static kvs_status read_documents(reader *r, kvsi_documents *documents, kvs_err *err)
{
    const int32_t eos = kvs_tokenizer_eos(r->rules.tokenizer);
    kvsi_ids ids = {0};
    int found;
    kvs_status st;

    for (;;) {
        kvsi_document_piece piece;
        int32_t *more = NULL;
        size_t count = 0;

        TRY_OUT(kvsi_documents_next(documents, &piece, &found, err));
        if (!found)
            break;
        if (piece.size > 0)
            TRY_OUT(kvs_tokenizer_encode(&more, &count, r->rules.tokenizer, piece.text, piece.size,
                                         KVS_ENCODE_NO_SPECIAL, err));
        st = count > 0 ? kvsi_ids_add(&ids, more, count, err) : KVS_OK;
        kvs_ids_free(more);
        TRY_OUT(st);
        if (!piece.last)
            continue;
        if (eos >= 0)
            TRY_OUT(kvsi_ids_add(&ids, &eos, 1, err));
        TRY_OUT(add_document(r, &ids, err));
        ids.count = 0;
    }
out:
    kvsi_free(ids.ids);
    return st;
}

/* ---- the split ------------------------------------------------------------------------------- */

static kvs_status add_to_part(part *p, size_t first, size_t end, kvs_err *err)
{
    TRY(kvsi_array_reserve(&p->sequences, &p->capacity, p->count + end - first,
                           sizeof *p->sequences, err));
    for (size_t s = first; s < end; s++)
        p->sequences[p->count++] = s;
    return KVS_OK;
}

static kvs_status assign(records_data *d, kvs_split split, const record *one, kvs_err *err)
{
    d->info.split[split].records++;
    d->info.split[split].tokens += one->tokens;
    return add_to_part(&d->parts[split], one->first, one->end, err);
}

/* The last windows of a single document are for validation. */
static kvs_status split_document(reader *r, kvs_err *err)
{
    const record *one = r->records;
    const size_t windows = one->end - one->first;
    const size_t last = kvsi_max((size_t)(r->how->fraction * (double)windows), 1);
    kvs_records_split *split = r->data->info.split;

    if (windows < 2)
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%s' is one document of %llu tokens: expected more than %zu, to have a "
                         "part for validation",
                         r->rules.path, (unsigned long long)one->tokens, r->how->length);
    TRY(assign(r->data, KVS_SPLIT_TRAIN, &(record){.first = 0, .end = windows - last}, err));
    TRY(assign(r->data, KVS_SPLIT_VALID, &(record){.first = windows - last, .end = windows}, err));
    split[KVS_SPLIT_TRAIN].tokens = (windows - last) * r->how->length + 1;
    split[KVS_SPLIT_VALID].tokens = one->tokens - (windows - last) * r->how->length;
    return KVS_OK;
}

static int compare_hashes(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The records with the smallest hashes are for validation: the fraction of all, but at least one,
 * and not all. */
static kvs_status split_records(reader *r, kvs_err *err)
{
    const double fraction = r->how->fraction;
    const size_t wanted = (size_t)(fraction * (double)r->count + 0.5);
    const size_t valid = kvsi_min(kvsi_max(wanted, 1), r->count - 1);
    double *hashes, bound = 0; /* hashes below it are for validation */

    if (r->count == 1 && fraction > 0 && r->rules.kind == KVS_RECORD_TEXT)
        return split_document(r, err);
    if (r->count == 1 && fraction > 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%s' has 1 conversation with a response: expected 2 or more, to have one "
                         "for validation",
                         r->rules.path);
    hashes = kvsi_alloc(r->count, sizeof *hashes);
    if (!hashes)
        return kvsi_no_memory(err, "%zu hashes", r->count);
    for (size_t i = 0; i < r->count; i++)
        hashes[i] = kvsi_split_hash(r->how->seed, r->records[i].number);
    qsort(hashes, r->count, sizeof *hashes, compare_hashes);
    if (fraction > 0)
        bound = hashes[valid];
    kvsi_free(hashes);
    for (size_t i = 0; i < r->count; i++)
        TRY(assign(r->data,
                   kvsi_split_hash(r->how->seed, r->records[i].number) < bound ? KVS_SPLIT_VALID
                                                                               : KVS_SPLIT_TRAIN,
                   &r->records[i], err));
    return KVS_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static kvs_status read_kind(kvs_record_kind *out, kvsi_documents *documents, const char *path,
                            const char *field, kvs_err *err)
{
    json_t *object;

    *out = KVS_RECORD_TEXT;
    if (!kvsi_documents_has_objects(documents))
        return KVS_OK;
    TRY(kvsi_documents_next_object(documents, &object, err));
    if (!object)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has no records", path);
    return kvsi_record_kind(out, object, field, path, kvsi_documents_line(documents), err);
}

static kvs_status detect(kvs_record_kind *out, const char *path, const char *field, kvs_err *err)
{
    kvsi_documents *documents = NULL;
    kvs_status st;

    TRY_OUT(kvsi_documents_open(&documents, path, field, NULL, err));
    TRY_OUT(read_kind(out, documents, path, field ? field : KVSI_DEFAULT_FIELD, err));
out:
    kvsi_documents_close(documents);
    return st;
}

kvs_status kvs_records_detect(kvs_record_kind *out, const char *path, const char *field,
                              kvs_err *err)
{
    NEED(out);
    NEED(path);
    return detect(out, path, field, err);
}

/* Reads a file into r->records. */
static kvs_status read_file(reader *r, const char *path, kvs_split split, kvs_err *err)
{
    kvs_records_split *into = &r->data->info.split[split];
    kvsi_documents *documents = NULL;
    kvs_status st;

    r->rules.path = path;
    r->read = r->count = 0;
    TRY_OUT(kvsi_documents_open(&documents, path, r->how->field, r->how->separator, err));
    TRY_OUT(r->rules.kind == KVS_RECORD_TEXT ? read_documents(r, documents, err)
                                             : read_conversations(r, documents, err));
    into->bytes = kvsi_documents_bytes(documents);
    into->checksum = kvsi_documents_checksum(documents);
    if (r->count == 0)
        st =
            r->rules.kind == KVS_RECORD_TEXT
                ? kvsi_fail(err, KVS_E_INVALID,
                            "'%s' has no document of 2 tokens or more: nothing to predict", path)
                : kvsi_fail(err, KVS_E_INVALID,
                            "'%s': none of its %llu conversations has a response within %zu tokens",
                            path, (unsigned long long)r->read, r->rules.most);
out:
    kvsi_documents_close(documents);
    return st;
}

static kvs_status read_all(reader *r, const char *path, kvs_err *err)
{
    kvs_record_kind kind;

    TRY(detect(&r->rules.kind, path, r->how->field, err));
    if (r->rules.kind == KVS_RECORD_MESSAGES && !r->how->chat_template)
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%s' has messages, which need a chat template: chat_template is NULL",
                         path);
    r->data->info.kind = r->rules.kind;
    TRY(read_file(r, path, KVS_SPLIT_TRAIN, err));
    if (!r->how->valid)
        return split_records(r, err);
    for (size_t i = 0; i < r->count; i++)
        TRY(assign(r->data, KVS_SPLIT_TRAIN, &r->records[i], err));
    TRY(detect(&kind, r->how->valid, r->how->field, err));
    if (kind != r->rules.kind)
        return kvsi_fail(err, KVS_E_INVALID, "'%s' and '%s' have records of different kinds", path,
                         r->how->valid);
    TRY(read_file(r, r->how->valid, KVS_SPLIT_VALID, err));
    for (size_t i = 0; i < r->count; i++)
        TRY(assign(r->data, KVS_SPLIT_VALID, &r->records[i], err));
    return KVS_OK;
}

/* ---- creation -------------------------------------------------------------------------------- */

static kvs_status sum_part(records_data *d, kvs_split split, kvs_err *err)
{
    part *p = &d->parts[split];
    kvsi_checksum_stream *stream = NULL;
    kvs_status st;

    TRY_OUT(kvsi_checksum_create(&stream, err));
    for (size_t i = 0; i < p->count; i++) {
        const size_t start = d->starts[p->sequences[i]], end = d->starts[p->sequences[i] + 1];
        const uint64_t length = end - start;

        kvsi_checksum_add(stream, &length, sizeof length);
        kvsi_checksum_add(stream, d->ids + start, length * sizeof *d->ids);
        kvsi_checksum_add(stream, d->targets + start, length * sizeof *d->targets);
        for (size_t row = start; row < end; row++)
            p->targets += d->targets[row] >= 0;
    }
    p->checksum = kvsi_checksum_value(stream);
    d->info.split[split].sequences = p->count;
    d->info.split[split].targets = p->targets;
out:
    kvsi_checksum_free(stream);
    return st;
}

static kvs_status finish(records_data *d, kvs_err *err)
{
    const part *train = &d->parts[KVS_SPLIT_TRAIN];
    size_t rows = 0;

    d->all = (kvs_batch){
        .sequences = d->count, .starts = d->starts, .ids = d->ids, .targets = d->targets};
    for (int s = 0; s < KVSI_SPLITS; s++)
        TRY(sum_part(d, (kvs_split)s, err));
    for (size_t i = 0; i < train->count; i++)
        rows += d->starts[train->sequences[i] + 1] - d->starts[train->sequences[i]];
    d->base.mean_tokens = (double)rows / (double)train->count;
    d->base.no_evaluation = d->parts[KVS_SPLIT_VALID].count == 0;
    return KVS_OK;
}

static kvs_status check_options(const kvs_records_options *o, kvs_err *err)
{
    if (!o->tokenizer)
        return kvsi_fail(err, KVS_E_INVALID, "tokenizer is NULL");
    if (o->length < 1 || o->length >= INT32_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "length is %zu, expected 1 to %d", o->length,
                         INT32_MAX - 1);
    if (!(o->fraction >= 0 && o->fraction < 1))
        return kvsi_fail(err, KVS_E_INVALID, "fraction is %g, expected at least 0 and below 1",
                         o->fraction);
    return KVS_OK;
}

kvs_status kvs_data_create_records(kvs_data **out, kvs_records_info *info, const char *path,
                                   const kvs_records_options *options, kvs_err *err)
{
    kvs_records_options how = defaults;
    reader r = {.how = &how};
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED(path);
    NEED(options);
    TRY(kvsi_sized_read(&how, sizeof how, options, "kvs_records_options", err));
    if (info)
        TRY(kvsi_sized_check(info, "kvs_records_info", err));
    TRY(check_options(&how, err));
    r.data = kvsi_alloc(1, sizeof *r.data);
    if (!r.data)
        return kvsi_no_memory(err, "data");
    r.data->base.ops = &records_ops;
    r.data->base.vocab = kvs_tokenizer_vocab(how.tokenizer);
    r.data->loss_all = how.loss_all;
    r.data->info.size = sizeof r.data->info;
    r.rules = (kvsi_record_rules){.tokenizer = how.tokenizer,
                                  .chat_template = how.chat_template,
                                  .most = how.length + 1,
                                  .loss_all = how.loss_all};
    r.data->path = kvsi_strdup(path);
    if (!r.data->path) {
        st = kvsi_no_memory(err, "'%s'", path);
        goto out;
    }
    TRY_OUT(read_all(&r, path, err));
    TRY_OUT(finish(r.data, err));
    if (info)
        kvsi_sized_write(info, &r.data->info, sizeof r.data->info);
    *out = &r.data->base;
    r.data = NULL;
out:
    kvsi_record_ids_release(&r.ids);
    kvsi_free(r.records);
    if (r.data)
        release(&r.data->base);
    return st;
}
