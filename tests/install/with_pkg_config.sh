#!/bin/sh
# usage: with_pkg_config.sh compiler prefix libdir source program
# Builds `source` with what pkg-config says about the cohort installed under `prefix`, and runs it.
set -eu
export PKG_CONFIG_PATH="$2/$3/pkgconfig"
"$1" -std=c++20 "$4" -o "$5" $(pkg-config --cflags --libs cohort)
LD_LIBRARY_PATH="$2/$3" "$5"
