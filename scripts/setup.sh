#!/usr/bin/env bash
# Installs the Debian packages that Cohort is built, tested and shown with: those that are missing,
# and nothing else. When all are there it does nothing and needs no network.
#
#   scripts/setup.sh               install what is missing (as root, or through sudo without a password)
#   scripts/setup.sh --list        print the packages, one per line
#   scripts/setup.sh --optional …  the same, with the packages of the optional parts
#   scripts/setup.sh --lint …      the same, with what `make lint` needs
#   scripts/setup.sh --docs …      the same, with what `make docs` needs
#   scripts/setup.sh --torch2 …    the same, and fetches LibTorch 2 from PyPI for `cmake --preset torch2`
#
# Exits with 3 where LibTorch 2 could not be fetched.
#
# COHORT_NO_SETUP=1 skips it: for machines where the libraries were put in place some other way.
set -euo pipefail

# The one list. docs/dependencies.md says more about each; a test compares the two.
readonly PACKAGES='
build-essential         # g++ and the C library
cmake                   # describes the build
ninja-build             # runs it
ccache                  # makes the second build quick
lld                     # links libtorch in a fraction of the time
pkg-config              # how programs without CMake find the installed library
libtorch-dev            # the kernels: LibTorch 1.13
libopenblas0-pthread    # a fast matrix product for them, safe to call from several threads
libfmt-dev              # text of messages
libspdlog-dev           # log lines
zlib1g-dev              # gzip data files
libzstd-dev             # zstd data files
libzip-dev              # zip containers: NPZ files
libisal-dev             # CRC-32C of records and checkpoints, at memory speed
libxxhash-dev           # hashes that tell whether the copies of a variable are still equal
libprotobuf-dev         # serialized graphs and datasets, tf.Example
protobuf-compiler       # the same
nlohmann-json3-dev      # JSON: TF_CONFIG, what clouds answer, manifests
libcpp-httplib-dev      # HTTP and HTTPS: asking Kubernetes and clouds for a cluster
libcli11-dev            # the command line of the cohort command
libssl-dev              # certificates; cpp-httplib stands on it
libgrpc++-dev           # connections between hosts
libgtest-dev            # tests
libgmock-dev            # the CMake package of libgtest-dev asks for it
librapidcheck-dev       # property tests
clang-format            # the form of the source, checked by a test
python3                 # the checks in tools/
git                     # which files belong to the project
dataset-fashion-mnist   # what the demo learns
'

# What the optional parts need: without these, CMake leaves the parts out.
readonly OPTIONAL_PACKAGES='
libopenmpi-dev          # cohort::mpi
openmpi-bin             # mpirun, which starts its tests
openssh-client          # tests of cohort run --hosts; mpirun looks for it, too
openssh-server          # tests of cohort run --hosts
slurmctld               # a Slurm on this host, for the test of its resolver
slurmd                  # the same
slurm-client            # the same
munge                   # the same
clang                   # the check that it takes the sources
python3-venv            # a place for TensorBoard, which is on PyPI only
python3-torch           # DistributedDataParallel, which benchmarks compare with
'

readonly LINT_PACKAGES='
clang-tidy              # finds what compilers do not warn of
'

readonly TORCH2_PACKAGES='
python3-pip             # finds LibTorch 2, which is on PyPI only
'

readonly DOCS_PACKAGES='
doxygen                 # the site of the documents and the public headers
'

chosen=$PACKAGES
packages() { sed -E 's/[[:space:]]*#.*//; /^$/d' <<<"$chosen"; }

# Prints the packages that are not installed.
missing_packages() {
  comm -23 <(packages | sort) \
    <(packages | xargs dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null |
      sed -n 's/^installed //p' | sort)
}

install_packages() {
  local as_root=()
  if [[ $EUID -ne 0 ]]; then
    if ! sudo -n true 2>/dev/null; then
      echo "setup: packages are missing and this user may not install them. Run:" >&2
      echo "  sudo apt-get install --no-install-recommends $*" >&2
      exit 1
    fi
    as_root=(sudo -n)
  fi
  apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@"; }
  echo "setup: installing $*"
  # The package lists are fetched only when those at hand do not know a package or are out of date.
  apt install --dry-run --no-install-recommends "$@" >/dev/null 2>&1 || apt update
  apt install --yes --no-install-recommends "$@" ||
    { apt update && apt install --yes --no-install-recommends "$@"; }
}

# Installing OpenBLAS makes it the system's BLAS, unless somebody chose another one. That choice is
# theirs; only say what it costs.
check_blas() {
  local arch name chosen wanted
  arch=$(gcc -print-multiarch)
  name=libblas.so.3-$arch
  wanted=/usr/lib/$arch/openblas-pthread/libblas.so.3
  chosen=$(readlink "/etc/alternatives/$name" || true)
  case $chosen in
    "$wanted") ;;
    *openblas-serial*)
      echo "setup: warning: the selected BLAS is $chosen, which now and then computes wrongly when" \
        "several replicas call it at once: sudo update-alternatives --set $name $wanted" >&2 ;;
    *openblas*) ;;
    *)
      echo "setup: warning: the selected BLAS is ${chosen:-unknown}, not OpenBLAS: training will be" \
        "many times slower. To change it: sudo update-alternatives --set $name $wanted" >&2 ;;
  esac
}

main() {
  local with_torch2=
  while true; do
    case ${1:-} in
      --optional) chosen+=$OPTIONAL_PACKAGES ;;
      --lint) chosen+=$LINT_PACKAGES ;;
      --docs) chosen+=$DOCS_PACKAGES ;;
      --torch2) chosen+=$TORCH2_PACKAGES with_torch2=yes ;;
      *) break ;;
    esac
    shift
  done
  case ${1:-} in
    '') ;;
    --list) packages && return ;;
    *) echo "usage: scripts/setup.sh [--optional] [--lint] [--docs] [--torch2] [--list]" >&2 && exit 2 ;;
  esac
  [[ -z ${COHORT_NO_SETUP:-} ]] || return 0
  if ! command -v dpkg-query >/dev/null; then
    echo "setup: this machine has no dpkg. Install the counterparts of these Debian packages, then" \
      "set COHORT_NO_SETUP=1:" $(packages) >&2
    exit 1
  fi
  local missing
  mapfile -t missing < <(missing_packages)
  [[ ${#missing[@]} -eq 0 ]] || install_packages "${missing[@]}"
  check_blas
  [[ -z $with_torch2 ]] || "$(dirname "$0")/fetch_torch.py"
}

main "$@"
