#!/bin/sh
# usage: with_pkg_config.sh compiler prefix libdir package source program
# Builds `source` with what pkg-config says about a package of the cohort installed under `prefix`, and runs it.
set -eu
export PKG_CONFIG_PATH="$2/$3/pkgconfig"
"$1" -std=c++20 "$5" -o "$6" $(pkg-config --cflags --libs "$4")
LD_LIBRARY_PATH="$2/$3" "$6"
