/* formats/families.h - the families of models in Hugging Face's format: settings of the one body.
 *
 * A family is a row of the table in families.c: its names, the settings that all its models have,
 * and how its config.json names the others.  hf.c reads and writes all of them alike. */
#ifndef KVSI_FORMATS_FAMILIES_H
#define KVSI_FORMATS_FAMILIES_H

#include "config/config.h"

/* Which layers have the sliding window. */
typedef enum kvsi_window_rule {
    KVSI_WINDOWS_NONE,      /* the keys of windows have no effect */
    KVSI_WINDOWS_ALL,       /* all, if 'sliding_window' is a number */
    KVSI_WINDOWS_ASKED,     /* with 'use_sliding_window', those from 'max_window_layers' on */
    KVSI_WINDOWS_ALTERNATE, /* every other one, from the first on */
    KVSI_WINDOWS_PATTERN,   /* all but every 'sliding_window_pattern'-th */
    KVSI_WINDOWS_LISTED,    /* those of 'layer_types', which must be there */
} kvsi_window_rule;

enum { KVSI_ACTIVATIONS = 5, KVSI_PACKED_MAX = 3 };

/* A tensor whose rows are those of several of ours, which follow each other in our order.  Both
 * names are the ends of the tensors' names. */
typedef struct kvsi_packed_rows {
    const char *name, *parts[KVSI_PACKED_MAX];
} kvsi_packed_rows;

/* The shape of a tensor in the family's files.  Taps are stored there as [channels, 1, taps], the
 * weights of a convolution. */
typedef enum kvsi_renamed_shape {
    KVSI_RENAMED_SAME,
    KVSI_RENAMED_FILTER, /* ours: [channels, taps] */
    KVSI_RENAMED_SHIFT,  /* ours: [kv heads, channels of a head, taps] */
} kvsi_renamed_shape;

/* A tensor with another name in the family's files; both are the ends of the tensors' names. */
typedef struct kvsi_renamed {
    const char *theirs, *ours;
    kvsi_renamed_shape shape;
} kvsi_renamed;

typedef struct kvsi_family {
    const char *type, *model; /* 'model_type', and the member of 'architectures' */
    unsigned bit;             /* in the masks of keys */
    kvsi_body body;
    const char *settings; /* of all its models, and values for missing keys: "NAME=TEXT ..." */
    const char *activation_key, *second_activation_key; /* which some files have too */
    const char *activations
        [KVSI_ACTIVATIONS]; /* names of the one that the body has; the first is written */
    kvsi_window_rule windows;
    int skips_rope;                 /* its files list layers without rotary positions */
    int local_rope;                 /* layers with a window have a rotary base of their own */
    int root_scale;                 /* the scale of embeddings is the root of their width */
    const kvsi_packed_rows *packed; /* ended by a NULL name; NULL = none */
    const kvsi_renamed *renamed;    /* ended by a NULL name; NULL = none */
    const char *dense_layers; /* the key that lists which layers have no experts, which must be all;
                                 NULL = there is none */
    int grows_scores;         /* its files have the growth of scores */
    int pads_vocabulary;      /* tables of tokens may have rows beyond the vocabulary */
    const char *window, *full_layer, *sliding_layer; /* the key of the window, and the names in
                                                        'layer_types'; NULL = as most have them */
} kvsi_family;

/* Our own models, whose config.json has an object with what differs from a plain model. */
extern const char kvsi_own_type[], kvsi_own_model[];

/* The family with a 'model_type' and a body; NULL past the end and if there is none. */
const kvsi_family *kvsi_family_at(size_t index);
const kvsi_family *kvsi_family_find(const char *type);
const kvsi_family *kvsi_family_own(kvsi_body body);
/* Sets the settings of all its models. */
kvs_status kvsi_family_set(const kvsi_family *family, kvs_model_config *config, kvs_err *err);
/* What models of an unknown type would need; NULL if nothing is known about it. */
const char *kvsi_family_missing(const char *type);

typedef enum kvsi_key_kind {
    KVSI_KEY_OPTIONAL,     /* 0: the value of the setting; without it, or null: the family's own */
    KVSI_KEY_REQUIRED,     /* 1: the value of the setting, which must be there */
    KVSI_KEY_NULLABLE,     /* as OPTIONAL, but null = the setting is left alone */
    KVSI_KEY_INVERSE_ROOT, /* as OPTIONAL; the setting is 1 / root of the number */
    KVSI_KEY_TAPS,         /* as OPTIONAL; a number of taps, one more than the setting */
    KVSI_KEY_AT_MOST,      /* as OPTIONAL; it may only make the setting smaller */
    KVSI_KEY_CHOICE,       /* a flag; "NAME=VALUE" is for true, the default for false */
} kvsi_key_kind;

/* A key of config.json and the setting that it has. */
typedef struct kvsi_family_key {
    const char *key, *setting;
    unsigned families; /* bits */
    kvsi_key_kind kind;
} kvsi_family_key;

/* NULL past the end. */
const kvsi_family_key *kvsi_family_key_at(size_t index);

typedef enum kvsi_fixed_kind {
    KVSI_FIXED_FLAG,
    KVSI_FIXED_NUMBER,
    KVSI_FIXED_NULL
} kvsi_fixed_kind;

/* A key whose only supported values are `expected` and null. */
typedef struct kvsi_family_fixed {
    const char *key;
    unsigned families;
    int expected;
    kvsi_fixed_kind kind;
    unsigned written; /* families whose files say so, unless another key of theirs has the name */
} kvsi_family_fixed;

const kvsi_family_fixed *kvsi_family_fixed_at(size_t index);

#endif
