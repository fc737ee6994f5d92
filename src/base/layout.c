/* A hash of the layout of all public structs, the values of the constants, and the declarations. */
#include "kvshift/kvshift.h"
#include "kvshift/kvshift_files.h"

/* FNV-1a over the eight bytes of a number, the lowest first; bindings compute it too. */
static uint64_t add(uint64_t hash, uint64_t number)
{
    for (int i = 0; i < 8; i++)
        hash = (hash ^ (number >> (8 * i) & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t kvs_layout_hash(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

#define KVSI_DECLARATIONS(hash_of_text) hash = add(hash, UINT64_C(hash_of_text));
#define KVSI_STRUCT(type) hash = add(hash, sizeof(type));
#define KVSI_FIELD(type, field)                                                                    \
    hash = add(add(hash, offsetof(type, field)), sizeof(((type *)0)->field));
#define KVSI_CONSTANT(name) hash = add(hash, (uint64_t)(int64_t)(name));
#include "base/layout.inc"
    return hash;
}
