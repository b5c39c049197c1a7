#!/bin/sh
# usage: command.sh prefix directory
# Uses the command of the cohort installed under `prefix`: makes certificates, and reads a file in safetensors format.
# Looks for the documents and the examples.
set -eu
for file in README.md docs/first_program.md examples/circle.cc; do
  test -f "$1/share/doc/cohort/$file"
done
command="$1/bin/cohort"
rm -rf "$2"
mkdir -p "$2"
"$command" credentials "$2/certificates" ps:0 worker:0
for name in authority client ps_0 worker_0; do
  test -d "$2/certificates/$name"
done
header='{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
printf "\\$(printf %o ${#header})\\0\\0\\0\\0\\0\\0\\0%s\\0\\0\\200\\077" "$header" > "$2/one.safetensors"
"$command" inspect "$2/one.safetensors"
