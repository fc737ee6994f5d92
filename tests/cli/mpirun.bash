# For scripts that start ranks: skips the test if mpirun is missing; defines `ranks` and `refused`.

if ! command -v mpirun >/dev/null; then
    echo "SKIPPED: no mpirun here (Debian: openmpi-bin)"
    exit 77
fi
if ! "$KVSHIFT" version | grep -q 'MPI yes'; then
    echo "SKIPPED: kvshift was built without MPI (Debian: libopenmpi-dev)"
    exit 77
fi

# Allow more ranks than cores, no binding to cores, and root, because containers run as root.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_btl_vader_single_copy_mechanism=none # not permitted in containers
if [[ $(id -u) == 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# A job that hangs is killed after a timeout and fails.
ranks() { # N COMMAND...
    local count=$1
    shift
    timeout --kill-after 10 300 mpirun -np "$count" "$@"
}

# The job ends with the code and one line of kvshift, which begins with LINE.
refused() { # CODE LINE MPIRUN_ARGUMENT...
    local code=0 expected=$1 line=$2
    shift 2
    timeout --kill-after 10 300 mpirun "$@" >out 2>err || code=$?
    [[ $code == "$expected" ]] || fail "exits $code, expected $expected: $(cat err)"
    [[ $(grep -c '^kvshift: ' err) == 1 ]] || fail "not one line: $(cat err)"
    grep -q "^kvshift: $line" err || fail "expected '$line', found: $(cat err)"
}
