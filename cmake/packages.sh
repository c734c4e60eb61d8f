# Debian packages that building Headroom needs; sourced by ./headroom and ./test.
# headroom_install PACKAGE…: installs those that are missing, saying so; a no-op where all are there. At a terminal it
# asks first. Without one it goes ahead for root and in CI, else not. HEADROOM_INSTALL=yes or =no answers beforehand.
HEADROOM_PACKAGES="g++ cmake ninja-build libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libeigen3-dev libfmt-dev libexpected-dev zlib1g-dev"
HEADROOM_TEST_PACKAGES="libgtest-dev libgmock-dev libbenchmark-dev"

headroom_may_install() {
  answer=${HEADROOM_INSTALL:-${CI:+yes}}
  if [ -z "$answer" ] && [ -t 0 ] && [ -t 2 ]; then
    printf 'headroom: install these Debian packages now:%s? [y/N] ' "$missing" >&2
    read -r answer || answer=no
  elif [ -z "$answer" ] && [ "$(id -u)" = 0 ]; then
    answer=yes
  fi
  case "$answer" in
    [yY]*|1|true) return 0 ;;
  esac
  echo "headroom: these Debian packages are missing:$missing" >&2
  echo "headroom: expected them, or leave to install them (HEADROOM_INSTALL=yes); by hand: apt-get install$missing" >&2
  return 2
}

headroom_install() {
  missing=""
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing="$missing $package"
  done
  [ -z "$missing" ] && return 0
  headroom_may_install || return 2
  echo "headroom: installing Debian packages:$missing" >&2
  root=""
  [ "$(id -u)" = 0 ] || root="sudo"
  $root apt-get update -qq >&2 || echo "headroom: apt-get update failed; trying with the lists at hand" >&2
  # shellcheck disable=SC2086
  if ! DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends $missing >/dev/null; then
    echo "headroom: could not install:$missing (install them by hand, then run this again)" >&2
    return 2
  fi
}
