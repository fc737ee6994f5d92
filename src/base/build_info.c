/* Information on this build; the build system provides the names of compiler and libraries. */
#include "base/commit.h"
#include "kvshift/kvshift.h"

#define TEXT_OF(value) #value
#define TEXT(value) TEXT_OF(value)
#define VERSION TEXT(KVS_VERSION_MAJOR) "." TEXT(KVS_VERSION_MINOR) "." TEXT(KVS_VERSION_PATCH)

const kvs_build_info *kvs_build(void)
{
    static const kvs_build_info info = {
        .version = VERSION,
        .commit = KVSI_COMMIT,
        .compiler = KVSI_COMPILER,
        .openmp = KVSI_OPENMP,
    };

    return &info;
}
