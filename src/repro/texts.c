#include "repro/texts.h"

#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "base/text_files.h"

#include <string.h>
#include <sys/stat.h>

enum { MADE_UP_BYTES = 60000, MADE_UP_SEED = 1 };

/* Whether the only path is a corpus. */
static int is_corpus(const kvs_repro_options *options)
{
    char *path;
    int is;

    if (options->text_count != 1 || !kvsi_is_folder(options->texts[0]))
        return 0;
    path = kvsi_path_join(options->texts[0], "corpus.json");
    is = path && kvsi_file_exists(path);
    kvsi_free(path);
    return is;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static json_t *describe_corpus(const char *path)
{
    return json_pack("[{s:s}]", "corpus", last_part(path));
}

kvs_status kvsi_texts_describe(json_t **out, const kvs_repro_options *options, kvs_err *err)
{
    kvsi_text_files files = {0};
    json_t *list = NULL;
    kvs_status st = KVS_OK;

    if (is_corpus(options)) {
        list = describe_corpus(options->texts[0]);
        goto out;
    }
    TRY_OUT(kvsi_text_files_list(&files, options->texts, options->text_count, err));
    list = json_array();
    for (size_t i = 0; i < files.count; i++) {
        struct stat info = {0};

        if (stat(files.paths[i], &info) != 0) {
            st = kvsi_fail_errno(err, "open", files.paths[i]);
            goto out;
        }
        json_array_append_new(list, json_pack("{s:s, s:I}", "name", last_part(files.paths[i]),
                                              "bytes", (json_int_t)info.st_size));
    }
out:
    if (st == KVS_OK && !list)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for the texts");
    kvsi_text_files_release(&files);
    if (st != KVS_OK) {
        json_decref(list);
        list = NULL;
    }
    *out = list;
    return st;
}

/* ---- tokenizer and corpus -------------------------------------------------------------------- */

static kvs_status make_up_text(const char *path, kvs_err *err)
{
    kvsi_text text = {0};
    kvs_status st;

    kvsi_make_language(&text, MADE_UP_BYTES, MADE_UP_SEED);
    TRY_OUT(kvsi_text_check(&text, err));
    TRY_OUT(kvsi_file_write_text(path, text.data, err));
out:
    kvsi_text_release(&text);
    return st;
}

static kvs_status make_tokenizer(const char *path, const char *const *texts, size_t count,
                                 size_t vocab, kvs_err *err)
{
    static const char *const special[] = {"<|endoftext|>"};
    const kvs_tokenizer_training training = {
        .size = sizeof(kvs_tokenizer_training), .vocab = vocab, .special = special, .specials = 1};
    kvs_tokenizer *tokenizer = NULL;
    kvs_status st;

    TRY_OUT(kvs_tokenizer_train(&tokenizer, texts, count, &training, err));
    TRY_OUT(kvs_tokenizer_save(tokenizer, path, err));
out:
    kvs_tokenizer_free(tokenizer);
    return st;
}

/* Paths of the files that are made. */
typedef struct places {
    char *dir, *made_up, *tokenizer, *corpus;
} places;

static void release_places(places *p)
{
    kvsi_free(p->dir);
    kvsi_free(p->made_up);
    kvsi_free(p->tokenizer);
    kvsi_free(p->corpus);
}

static kvs_status find_places(places *p, const char *out, kvs_err *err)
{
    int made;

    p->dir = kvsi_path_join(out, "text");
    p->made_up = p->dir ? kvsi_path_join(p->dir, "made-up.txt") : NULL;
    p->tokenizer = p->dir ? kvsi_path_join(p->dir, "tokenizer.json") : NULL;
    p->corpus = p->dir ? kvsi_path_join(p->dir, "data") : NULL;
    if (!p->made_up || !p->tokenizer || !p->corpus)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", out);
    return kvsi_dir_make(p->dir, &made, err);
}

static kvs_status make_missing(const places *p, const kvs_repro_options *options, size_t vocab,
                               kvs_err *err)
{
    const char *made_up[] = {p->made_up};
    const char *const *texts = options->texts;
    size_t count = options->text_count;

    if (count == 0) {
        TRY(make_up_text(p->made_up, err));
        texts = made_up;
        count = 1;
    }
    if (vocab > 0 && !kvsi_file_exists(p->tokenizer))
        TRY(make_tokenizer(p->tokenizer, texts, count, vocab, err));
    if (!kvsi_is_folder(p->corpus))
        TRY(kvs_corpus_build(p->corpus, texts, count, vocab > 0 ? p->tokenizer : "bytes", NULL,
                             err));
    return KVS_OK;
}

kvs_status kvsi_texts_open(kvs_corpus **corpus, kvs_tokenizer **tokenizer,
                           const kvs_repro_options *options, size_t vocab, kvs_err *err)
{
    places p = {0};
    kvs_status st;

    if (is_corpus(options)) {
        TRY_OUT(kvs_corpus_open(corpus, options->texts[0], NULL, err));
    } else {
        TRY_OUT(find_places(&p, options->out, err));
        TRY_OUT(make_missing(&p, options, vocab, err));
        TRY_OUT(kvs_corpus_open(corpus, p.corpus, NULL, err));
    }
    TRY_OUT(kvs_corpus_load_tokenizer(tokenizer, *corpus, err));
out:
    release_places(&p);
    return st;
}
