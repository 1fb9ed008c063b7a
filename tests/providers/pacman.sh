#!/bin/sh
# pacman.sh VERSION: packages of pacman in /srv/repo, in one version, as such a repository has them; zaapp needs zalib.
set -e
version=$1

# make NAME [WHAT IT NEEDS]
make() {
  dir=/srv/build/$1
  mkdir -p "$dir/opt/$1" /srv/repo
  echo "$version" >"$dir/opt/$1/version"
  cat >"$dir/.PKGINFO" <<INFO
pkgname = $1
pkgbase = $1
pkgver = $version-1
pkgdesc = A package of the tests
url = http://localhost
builddate = 1700000000
packager = Nobody <nobody@localhost>
size = 4
arch = any
license = MIT
${2:+depend = $2}
INFO
  tar -C "$dir" --zstd -cf "/srv/repo/$1-$version-1-any.pkg.tar.zst" .PKGINFO opt
}

make zalib
make zaapp zalib
make zabird
repo-add -q /srv/repo/tests.db.tar.gz "/srv/repo/"*"-$version-1-any.pkg.tar.zst"
