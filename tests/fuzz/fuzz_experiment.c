/* The folder of a finished experiment, as 'kvshift repro report' reads it. */
#include "fuzz.h"
#include "kvshift/kvshift_lab.h"

#include <string.h>

static const char *const names[] = {"experiment.json", "results.json", "curve.svg", NULL};

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    size_t experiments = 0;
    kvs_status st;

    fuzz_unpack(names, data, size);
    st = kvs_repro_report(&experiments, ".", "report.html", err);
    fuzz_expect((st == KVS_OK) == (experiments == 1), "a report of one experiment");
    return st;
}

static const char experiment[] =
    "{\"experiment\": \"seeds\", \"figure\": \"Fig. 5a\", \"claim\": \"c\", \"scale\": \"desk\", "
    "\"settings\": \"s\", \"seeds\": 2, \"runs\": 4, \"command\": \"kvshift repro seeds\", "
    "\"machine\": {\"processor\": \"p\", \"threads\": 2, \"cpu_level\": \"avx2\", \"kvshift\": "
    "\"0.1.0\", \"commit\": \"abc\"}, \"seconds\": 12.5, \"finished\": \"now\", \"figures\": "
    "[{\"name\": \"curve\", \"caption\": \"x < y\"}], \"tables\": [{\"name\": \"t\", \"caption\": "
    "\"t\", \"left\": 1, \"rows\": [[\"a\", \"b\"], [\"c\", \"d\"]]}], \"remarks\": [\"r\"]}";
static const char results[] =
    "[{\"claim\": \"c\", \"paper\": \"p\", \"ours\": -0.035, \"unit\": \"nats\", \"stderr\": "
    "0.025, \"seeds\": 3, \"verdict\": \"not at this scale\", \"detail\": \"d\"}, {\"ours\": "
    "null}]";
static const char svg[] = "<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n";

void fuzz_seeds(void)
{
    kvsi_text input = {0};

    fuzz_pack(&input, names[0], experiment, strlen(experiment));
    fuzz_pack(&input, names[1], results, strlen(results));
    fuzz_pack(&input, names[2], svg, strlen(svg));
    fuzz_seed("whole", &input);
}
