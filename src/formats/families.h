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

enum { KVSI_FAMILY_ACTIVATIONS = 8, KVSI_PACKED_MAX = 3 };

/* The shape of a tensor in a family's files.  Taps may be stored as [channels, 1, taps], the
 * weights of a convolution. */
typedef enum kvsi_file_shape {
    KVSI_SHAPE_SAME,
    KVSI_SHAPE_FILTER, /* ours: [channels, taps] */
    KVSI_SHAPE_SHIFT,  /* ours: [kv heads, channels of a head, taps] */
} kvsi_file_shape;

/* A part of the names of tensors in a family's files, and what stands in our names instead. */
typedef struct kvsi_family_name {
    const char *theirs, *ours;
    kvsi_file_shape shape;
} kvsi_family_name;

/* A tensor whose rows are those of several of ours, which follow each other in our order: first all
 * rows of the first part, or, by head, a head's rows of each part and then the next head's.  All
 * names are the ends of our names. */
typedef struct kvsi_packed_rows {
    const char *name, *parts[KVSI_PACKED_MAX];
    int by_head;
    size_t unused; /* rows before them that nothing reads; written as zeros */
} kvsi_packed_rows;

typedef struct kvsi_family {
    const char *type, *model; /* 'model_type', and the member of 'architectures' */
    unsigned bit;             /* in the masks of keys */
    kvsi_body body;
    const char *settings; /* of all its models, and values for missing keys: "NAME=TEXT ..." */
    const char *activation_key, *second_activation_key; /* which some files have too */
    /* Names of the activation that the family's settings have, or "NAME=VALUE" with another one;
     * the first that fits is written. */
    const char *activations[KVSI_FAMILY_ACTIVATIONS];
    kvsi_window_rule windows;
    int skips_rope;                 /* its files list layers without rotary positions */
    int local_rope;                 /* layers with a window have a rotary base of their own */
    int root_scale;                 /* the scale of embeddings is the root of their width */
    const kvsi_family_name *names;  /* ended by NULL; applied in this order.  NULL = as ours */
    const kvsi_packed_rows *packed; /* ended by a NULL name; NULL = none */
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
/* Our name of a tensor of the family's files, or theirs of one of ours, and its shape there.
 * Return 0 if the name does not fit. */
int kvsi_family_our_name(char *out, size_t size, kvsi_file_shape *shape, const kvsi_family *family,
                         const char *theirs);
int kvsi_family_their_name(char *out, size_t size, kvsi_file_shape *shape,
                           const kvsi_family *family, const char *ours);
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
    KVSI_KEY_SAME,         /* as OPTIONAL, but a key before it sets it, and this one must agree */
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
