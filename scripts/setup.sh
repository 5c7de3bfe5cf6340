#!/usr/bin/env bash
# Installs what Lockstep is built with, on Debian 12: scripts/setup.sh [bench|test|fuzz]
# With `bench` also the peers that the benchmarks compare with; with `test` also Chromium, in which the
# report page is tested, and the shells that `lockstep completion` writes for; with `fuzz` also Clang.
# npm bundles that page and carries the data sets that are fetched: Debian's brings some 400 packages
# along, so one from elsewhere will do. Does nothing where nothing is missing.
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache pkg-config git
  libtorch-dev libopenblas0-openmp
  libucx-dev libsimgrid-dev libboost-dev
  libthrift-dev thrift-compiler libevent-dev libssl-dev
  libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libfmt-dev
  libjpeg62-turbo-dev libpng-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  clang-format clang-tidy
  iproute2
)
case "${1-}" in
  "") ;;
  bench) packages+=(libopenmpi-dev openmpi-bin libgloo-dev python3-torch) ;;
  test)
    packages+=(zsh fish) # completion is tried in both
    [[ -e /usr/bin/chromium ]] || packages+=(chromium)
    ;;
  fuzz) packages+=(clang libclang-rt-dev) ;;
  *)
    echo "setup.sh: unknown argument '$1'; use nothing, 'bench' for the peers too, 'test' for what tests need, or 'fuzz'" >&2
    exit 2
    ;;
esac

command -v npm >/dev/null || packages+=(npm)

command -v dpkg-query >/dev/null || {
  echo "setup.sh: this is not Debian; install the equivalents of: ${packages[*]}" >&2
  exit 1
}

installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null |
  sed -n 's/^installed //p' || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
((${#missing[@]})) || exit 0

if ((EUID == 0)); then
  as_root=()
elif command -v sudo >/dev/null; then
  as_root=(sudo)
else
  echo "setup.sh: run it as root or install sudo; it would install: ${missing[*]}" >&2
  exit 1
fi

echo "installing ${#missing[@]} packages: ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300
  -o Dpkg::Use-Pty=0)
# A source that is down need not hold anything we want: the installation decides.
"${apt[@]}" update </dev/null || echo "setup.sh: apt-get update failed, trying to install anyway" >&2
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null >/dev/null
