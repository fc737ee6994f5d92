#include "tokenizer/workspace.h"

#include "base/memory.h"

#include <pthread.h>

struct kvsi_workspaces {
    pthread_mutex_t lock;
    int has_lock;
    kvsi_workspace *first; /* the list of workspaces that no call uses */
};

static void free_workspace(kvsi_workspace *w)
{
    if (!w)
        return;
    kvsi_matcher_free(w->matcher);
    kvsi_text_release(&w->mapped);
    kvsi_word_release(&w->word);
    kvsi_word_cache_release(&w->cache);
    kvsi_free(w);
}

static kvs_status create_workspace(kvsi_workspace **out, kvs_err *err)
{
    kvsi_workspace *w = kvsi_alloc(1, sizeof *w);
    kvs_status st;

    *out = NULL;
    if (!w)
        return kvsi_no_memory(err, "a tokenizer's workspace");
    TRY_OUT(kvsi_matcher_create(&w->matcher, err));
    *out = w;
    w = NULL;
out:
    free_workspace(w);
    return st;
}

kvs_status kvsi_workspaces_create(kvsi_workspaces **out, kvs_err *err)
{
    kvsi_workspaces *list = kvsi_alloc(1, sizeof *list);
    kvs_status st;

    *out = NULL;
    if (!list)
        return kvsi_no_memory(err, "a tokenizer's workspace");
    list->has_lock = pthread_mutex_init(&list->lock, NULL) == 0;
    if (!list->has_lock) {
        st = kvsi_no_memory(err, "a tokenizer's lock");
        goto out;
    }
    TRY_OUT(create_workspace(&list->first, err));
    *out = list;
    list = NULL;
out:
    kvsi_workspaces_free(list);
    return st;
}

void kvsi_workspaces_free(kvsi_workspaces *list)
{
    if (!list)
        return;
    while (list->first) {
        kvsi_workspace *w = list->first;

        list->first = w->next;
        free_workspace(w);
    }
    if (list->has_lock)
        pthread_mutex_destroy(&list->lock);
    kvsi_free(list);
}

kvs_status kvsi_workspace_take(kvsi_workspace **out, kvsi_workspaces *list, kvs_err *err)
{
    kvsi_workspace *w;

    pthread_mutex_lock(&list->lock);
    w = list->first;
    if (w)
        list->first = w->next;
    pthread_mutex_unlock(&list->lock);
    *out = w;
    return w ? KVS_OK : create_workspace(out, err);
}

void kvsi_workspace_put(kvsi_workspaces *list, kvsi_workspace *w, kvs_status result)
{
    if (!w)
        return;
    if (result == KVS_E_NOMEM) {
        free_workspace(w);
        return;
    }
    pthread_mutex_lock(&list->lock);
    w->next = list->first;
    list->first = w;
    pthread_mutex_unlock(&list->lock);
}
