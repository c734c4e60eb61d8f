#!/bin/sh
# When the launcher installs what is missing, with programs of its own in place of Debian's.
# usage: packages.sh SOURCE
set -e
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stub() { printf '#!/bin/sh\n%s\n' "$2" >"$work/$1"; chmod +x "$work/$1"; }
stub dpkg-query 'exit 1'
stub id 'echo "$FAKE_USER"'
stub apt-get 'echo "$@" >>"$CALLS"'
stub sudo 'exec "$@"'
export CALLS="$work/calls"
expect() {  # WHAT EXIT INSTALLS NAME=VALUE…
  what=$1; code=$2; installs=$3; shift 3
  : >"$CALLS"
  got=0
  env -u CI -u HEADROOM_INSTALL PATH="$work:$PATH" "$@" sh -c ". $source/cmake/packages.sh; headroom_install one two" \
    </dev/null >/dev/null 2>"$work/said" || got=$?
  count=$(grep -c 'install.* one two' "$CALLS" || true)
  if [ "$got" != "$code" ] || [ "$count" != "$installs" ] || ! grep -q 'one two' "$work/said"; then
    echo "$what: exit $got, installed $count times; said:"; cat "$work/said"; exit 1
  fi
}
source=$1
expect "a user without a terminal" 2 0 FAKE_USER=1000
expect "a user who said yes" 0 1 FAKE_USER=1000 HEADROOM_INSTALL=yes
expect "a user in CI" 0 1 FAKE_USER=1000 CI=true
expect "root" 0 1 FAKE_USER=0
expect "root who said no" 2 0 FAKE_USER=0 HEADROOM_INSTALL=no
