#!/bin/sh
# needs.sh BINARY: fails when BINARY needs shared libraries beside the C library's, which every Linux has: it is
# meant to be copied alone.
set -e
others=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
  grep -vE '^(libc|libm|libdl|libpthread|librt|ld-linux[-a-z0-9_]*)\.so\.[0-9]+$' || true)
[ -z "$others" ] || {
  echo "$1 needs:" $others >&2
  exit 1
}
