/* tokenizer/workspace.h - the memory that a call on a tokenizer changes.
 *
 * Several threads may use one tokenizer at once, so a call changes nothing in the tokenizer itself.
 * It takes a workspace from the tokenizer's list, or creates one if the list is empty, and puts it
 * back into the list when it returns.  So the number of workspaces is the largest number of calls
 * that ran at the same time.  The workspace that was put back last is taken first, so a single
 * thread always gets the same workspace, with its cache of words. */
#ifndef KVSI_TOKENIZER_WORKSPACE_H
#define KVSI_TOKENIZER_WORKSPACE_H

#include "base/text.h"
#include "tokenizer/merges.h"
#include "tokenizer/pattern.h"
#include "tokenizer/word_cache.h"

typedef struct kvsi_workspace {
    struct kvsi_workspace *next; /* in the list */
    kvsi_matcher *matcher;
    kvsi_text mapped; /* a word as characters that represent its bytes */
    kvsi_word word;
    kvsi_word_cache cache;
} kvsi_workspace;

typedef struct kvsi_workspaces kvsi_workspaces;

/* Creates a list of one workspace, so that a single thread never has to create another. */
kvs_status kvsi_workspaces_create(kvsi_workspaces **out, kvs_err *err);
/* Frees the list and its workspaces, all of which must have been put back. */
void kvsi_workspaces_free(kvsi_workspaces *list);

/* Takes a workspace from the list, or creates one if the list is empty. */
kvs_status kvsi_workspace_take(kvsi_workspace **out, kvsi_workspaces *list, kvs_err *err);
/* Puts a workspace back; NULL is allowed.  `result` is the status of the call that used it.  If
 * that is KVS_E_NOMEM, the workspace is freed, since its texts would report the failure again. */
void kvsi_workspace_put(kvsi_workspaces *list, kvsi_workspace *workspace, kvs_status result);

#endif
