#!/usr/bin/env bash
# Runs commands on a clean Debian 12 of its own, as an ordinary user who may use sudo: what a newcomer meets.
#
#   scripts/fresh.sh                     runs `make run`, then `make test`
#   scripts/fresh.sh 'make test' …       runs these instead, one after the other, until one fails
#
# Exits with 3 where no clean system can be made, and else as the last command did.
# Needs root, and a network for the packages. The tree is that of the last commit. The base system is built once, by
# debootstrap, from where this machine's apt gets Debian 12, and kept in ${XDG_CACHE_HOME:-~/.cache}/cohort. The
# compiler cache of this machine is used and filled. Everything else is gone afterwards.
set -euo pipefail

readonly SUITE=bookworm
readonly CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/cohort
readonly BASE=$CACHE/$SUITE.tar
readonly ROOT=$CACHE/root
TREE=$(cd "$(dirname "$0")/.." && pwd)
COMPILER_CACHE=$(ccache --get-config cache_dir 2>/dev/null || echo "${CCACHE_DIR:-$HOME/.cache/ccache}")
child=
is_ready=

say() { echo "fresh: $*" >&2; }
fail() { say "$@" && exit 3; }

# Argument: the exit code, which stays that of a signal or of the last command.
finish() {
  clean_up
  [[ -n $is_ready || $1 -eq 0 || $1 -gt 128 ]] || exit 3
}

# Runs a command whose mounts and processes end with it, however it ends.
contained() {
  unshare --mount --pid --mount-proc --kill-child "$@" </dev/null {lock}>&- &
  child=$!
  wait "$child"
}

clean_up() {
  [[ -z $child ]] || { kill -KILL "$child" && wait "$child"; } 2>/dev/null || true
  for _ in {1..20}; do # processes that were just killed may still write
    rm -rf --one-file-system "$ROOT" 2>/dev/null && return 0
    sleep 0.5
  done
  say "$ROOT could not be removed"
}

check_machine() {
  [[ $EUID -eq 0 ]] || fail "a clean system needs root (chroot, mount); try: sudo make fresh"
  unshare --mount --pid --mount-proc --kill-child true 2>/dev/null ||
    fail "this machine does not allow mounts, as in a container without CAP_SYS_ADMIN"
  command -v debootstrap >/dev/null || install_debootstrap
}

install_debootstrap() {
  local install=(apt-get install --yes --no-install-recommends debootstrap)
  command -v apt-get >/dev/null || fail "debootstrap is missing and there is no apt-get to install it"
  export DEBIAN_FRONTEND=noninteractive
  say "installing debootstrap"
  "${install[@]}" >/dev/null 2>&1 || { apt-get update && "${install[@]}"; } >/dev/null ||
    fail "debootstrap is missing and could not be installed: is there a network?"
}

# Prints where this machine gets Debian 12 from, as lines of a sources.list; nothing where it is another system.
debian_sources() {
  command -v apt-get >/dev/null || return 0
  local format='$(ORIGIN) deb $(SITE) $(RELEASE) $(COMPONENT)'
  [[ -n $(apt-get indextargets 'Created-By: Packages') ]] || apt-get update >/dev/null
  apt-get indextargets --format "$format" 'Created-By: Packages' |
    sed -nE "s/^Debian (deb [^ ]+ $SUITE(-updates|-security)? main)$/\1/p" | sort -u
}

# Prints how apt reaches its sources: proxies, certificates, time limits.
apt_access() {
  command -v apt-config >/dev/null || return 0
  apt-config dump | grep -E '^Acquire::(http|https|Check-Valid-Until|Retries|ForceIPv)' || true
  local scheme
  for scheme in http https; do
    local variable=${scheme}_proxy
    [[ -z ${!variable:-} ]] || echo "Acquire::$scheme::Proxy \"${!variable}\";"
  done
}

build_base() {
  [[ ! -e $BASE ]] || return 0
  local mirror proxy log=$CACHE/debootstrap.log
  mirror=$(debian_sources | sed -nE "s/^deb ([^ ]+) $SUITE main$/\1/p" | head -1)
  proxy=${http_proxy:-$(apt_access | sed -nE 's/^Acquire::http::Proxy "(http.*)";$/\1/p')}
  say "building a base system; later runs use it again"
  http_proxy=$proxy contained debootstrap --variant=minbase --include=ca-certificates,make,sudo \
    "$SUITE" "$ROOT" ${mirror:+"$mirror"} >"$log" 2>&1 || {
    tail -5 "$log" >&2
    fail "debootstrap failed ($log): is ${mirror:-its default mirror} reachable?"
  }
  tar -C "$ROOT" -cf "$BASE.new" . && mv "$BASE.new" "$BASE" && rm -rf --one-file-system "$ROOT"
}

# Unpacks the base, and tells it how this machine reaches its network.
unpack_base() {
  local path
  mkdir -p "$ROOT" && tar -C "$ROOT" -xf "$BASE"
  for path in etc/{resolv.conf,hosts,hostname,pip.conf} usr/local/share/ca-certificates \
    etc/apt/{auth.conf,auth.conf.d,trusted.gpg,trusted.gpg.d}; do
    [[ ! -e /$path ]] || (cd / && cp -RL --parents --remove-destination "$path" "$ROOT")
  done
  chroot "$ROOT" update-ca-certificates >/dev/null 2>&1
  apt_access >"$ROOT/etc/apt/apt.conf.d/90host"
  path=$(debian_sources)
  [[ -z $path ]] || echo "$path" >"$ROOT/etc/apt/sources.list"
}

# Adds the user, with the tree of the last commit. The directory has the same name wherever this checkout lies, so that the
# compiler cache fits. The user has the number of the cache's owner. Where that is root, an unused number becomes the owner;
# root may use the cache all the same.
add_user_and_tree() {
  local user home=$ROOT/home/cohort git=(git -c safe.directory='*' -C "$TREE")
  # All of the cache's directories: one that root makes during this run would be closed to the user, and ccache would fail.
  mkdir -p "$COMPILER_CACHE"/{{0..9},{a..f}}/{{0..9},{a..f}} "$COMPILER_CACHE/tmp"
  user=$(stat -c %u "$COMPILER_CACHE")
  [[ $user -ne 0 ]] || user=57017
  chroot "$ROOT" useradd --uid "$user" --create-home --shell /bin/bash cohort
  echo 'cohort ALL=(ALL) NOPASSWD: ALL' >"$ROOT/etc/sudoers.d/cohort"
  mkdir -p "$home/cohort" "$home/.cache/ccache"
  [[ -z $("${git[@]}" status --porcelain) ]] || say "changes that are not committed are left out"
  "${git[@]}" archive HEAD | tar -C "$home/cohort" -x
  git -C "$home/cohort" init --quiet && git -C "$home/cohort" add --all
  chown -R "$user:$user" "$home" "$COMPILER_CACHE"
}

# What PID 1 of the new system does. Arguments: its root, the compiler cache, the commands.
boot() {
  set -euo pipefail
  local root=$1 compiler_cache=$2 command
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  mount --bind "$compiler_cache" "$root/home/cohort/.cache/ccache"
  as_user() { chroot --userspec=cohort:cohort "$root" env --default-signal=INT,QUIT "$@"; }
  as_user sudo -n true || { echo "fresh: sudo does not work there: is $root on a file system without setuid?" >&2 && exit 3; }
  for command in "${@:3}"; do
    echo "fresh: \$ $command" >&2
    as_user bash -c "cd ~/cohort && $command"
  done
}

# Runs the commands there. Of this machine's environment only the named variables go along.
run_commands() {
  local name variables=(HOME=/home/cohort USER=cohort LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin)
  for name in TERM JOBS {http,https,no}_proxy PIP_{INDEX_URL,EXTRA_INDEX_URL,TRUSTED_HOST,CERT}; do
    [[ -z ${!name:-} ]] || variables+=("$name=${!name}")
  done
  name=$(ccache --get-config max_size 2>/dev/null || true)
  [[ -z $name ]] || variables+=("CCACHE_MAXSIZE=$name")
  contained env --ignore-environment "${variables[@]}" bash -c "$(declare -f boot); boot \"\$@\"" boot "$ROOT" "$COMPILER_CACHE" "$@"
}

main() {
  [[ $# -gt 0 ]] || set -- 'make run' 'make test'
  check_machine
  mkdir -p "$CACHE"
  exec {lock}>"$CACHE/lock"
  flock --nonblock "$lock" || { say "waiting for another run" && flock "$lock"; }
  trap 'finish $?' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  rm -rf --one-file-system "$ROOT" # of a run that was killed
  build_base
  unpack_base
  add_user_and_tree
  is_ready=yes
  run_commands "$@"
}

main "$@"; exit # on one line: bash reads no further, also when this file changes during a run
