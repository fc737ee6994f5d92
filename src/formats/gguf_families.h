/* formats/gguf_families.h - the families of models in GGUF files, as llama.cpp runs them: settings
 * of the one body.
 *
 * A family is a row of the table in gguf_families.c: the name of its architecture, the settings
 * that all its models have, and what its files may say beyond these.  The table of keys has two
 * masks, because files have keys that llama.cpp ignores: `reads` are the families whose files we
 * understand with that key, `runs` those for which llama.cpp computes what it says, and so those
 * for which it is written. */
#ifndef KVSI_FORMATS_GGUF_FAMILIES_H
#define KVSI_FORMATS_GGUF_FAMILIES_H

#include "formats/families.h"

/* Which layers have a window, if there is one. */
typedef enum kvsi_gguf_windows {
    KVSI_GGUF_WINDOWS_NONE,    /* a window is refused */
    KVSI_GGUF_WINDOWS_IGNORED, /* every layer; llama.cpp computes none of them */
    KVSI_GGUF_WINDOWS_PERIOD,  /* all but the last layer of each period; no key = no window */
    KVSI_GGUF_WINDOWS_ALWAYS,  /* the same, but files without the key have a window too */
} kvsi_gguf_windows;

typedef struct kvsi_gguf_family {
    const char *architecture; /* "general.architecture", and before the names of its keys */
    const char *type;         /* as which its models are written to folders; NULL = as ours */
    const char *settings;     /* of all its models, and values for missing keys: "NAME=TEXT ..." */
    const kvsi_packed_rows *packed; /* tensors that are written as rows of one; NULL = none */
    size_t window_period;           /* of files without the key */
    size_t rope_period;             /* the last layer of each period has no RoPE; 0 = all have */
    size_t wide_scores;             /* layers of the size whose score scale is from dim / heads */
    unsigned bit;                   /* in the masks of keys */
    unsigned scalings;              /* bits of kvsi_rope_scaling that llama.cpp computes */
    kvsi_gguf_windows windows;
    int interleaved;      /* in q and k, the rows of rotary pairs are adjacent */
    int norms_after;      /* there are norms after the branches */
    int gate_up;          /* ffn_up has the rows of gate and up */
    int unscaled_windows; /* layers with a window have rotary positions without scaling */
    int is_gemma;         /* scales of embeddings and scores follow from sizes */
} kvsi_gguf_family;

/* The family of an architecture, and that of our own files; NULL past the end or if there is
 * none. */
const kvsi_gguf_family *kvsi_gguf_family_at(size_t index);
const kvsi_gguf_family *kvsi_gguf_family_find(const char *name, size_t size);
const kvsi_gguf_family *kvsi_gguf_family_own(void);
/* The family that llama.cpp runs models of a type of families.c as. */
const kvsi_gguf_family *kvsi_gguf_family_of_type(const char *type);

/* Sets the settings of all its models. */
kvs_status kvsi_gguf_family_set(const kvsi_gguf_family *family, kvs_model_config *config,
                                kvs_err *err);
/* Sets what follows from the sizes. */
void kvsi_gguf_family_derive(const kvsi_gguf_family *family, kvs_model_config *config);

/* Tensors that consist of several of ours, in any family; phi3 has gate and up in one. */
extern const kvsi_packed_rows kvsi_gguf_packed[];

typedef enum kvsi_gguf_key_kind {
    KVSI_GGUF_OPTIONAL, /* the value of the setting; not written where that is automatic */
    KVSI_GGUF_REQUIRED, /* the same, but it must be there; an automatic value is written as 1 */
    KVSI_GGUF_POSITIVE, /* as OPTIONAL, but files without it do not mean none, which therefore
                           cannot be written */
    KVSI_GGUF_CHOICE, /* a flag; "NAME=VALUE" is for true, the default for false.  Must be there */
    KVSI_GGUF_ROTARY, /* the channels that rotate, of which the setting is the fraction */
} kvsi_gguf_key_kind;

/* A key, after the architecture's name, and the setting that it has. */
typedef struct kvsi_gguf_key {
    const char *key, *setting;
    unsigned reads, runs; /* bits of families */
    kvsi_gguf_key_kind kind;
} kvsi_gguf_key;

/* NULL past the end. */
const kvsi_gguf_key *kvsi_gguf_key_at(size_t index);
/* The row of its setting. */
const kvsi_setting *kvsi_gguf_key_setting(const kvsi_gguf_key *key);

/* A setting that follows from whether a tensor exists. */
typedef struct kvsi_gguf_fact {
    const char *tensor, *setting; /* "NAME=VALUE" */
    int absent;                   /* it has this value if there is no such tensor */
    unsigned reads, runs;         /* as in keys: llama.cpp computes both values */
} kvsi_gguf_fact;

const kvsi_gguf_fact *kvsi_gguf_fact_at(size_t index);
const kvsi_setting *kvsi_gguf_fact_setting(const kvsi_gguf_fact *fact);

/* Keys that change nothing: they are read elsewhere, or only other architectures use them. */
int kvsi_gguf_is_harmless(const char *key, size_t size, unsigned family);

#endif
