#!/bin/sh
# Packages of rpm in /srv/repo and /srv/second: zaapp needs zalib, each in two versions; zaneedy needs what nobody has.
set -e

# make NAME VERSION [WHAT IT NEEDS]
make() {
  cat >"/srv/build/$1.spec" <<SPEC
Name: $1
Version: $2
Release: 1
Summary: A package of the tests
License: MIT
BuildArch: noarch
${3:+Requires: $3}
%description
It holds its own version.
%install
mkdir -p %{buildroot}/opt/$1
echo $2 >%{buildroot}/opt/$1/version
%files
/opt/$1
SPEC
  rpmbuild -bb --quiet --define '_topdir /srv/build' --define '__os_install_post %{nil}' "/srv/build/$1.spec" 2>/srv/build/log ||
    { cat /srv/build/log; exit 1; }
}

mkdir -p /srv/build /srv/repo /srv/second /etc/rpm
# Debian keeps rpm's database in the home directory.
echo '%_dbpath /var/lib/rpm' >/etc/rpm/macros
# No host is without a package, and zypper cannot read a database without one.
make zabase 1.0
rpm -i --force-debian /srv/build/RPMS/noarch/zabase-1.0-1.noarch.rpm
rm /srv/build/RPMS/noarch/*
for version in 1.0 2.0; do
  make zalib "$version"
  make zaapp "$version" zalib
done
make zabird-with-a-name-that-is-longer-than-a-column-of-a-table 1.0
mv /srv/build/RPMS/noarch/*.rpm /srv/repo
createrepo_c -q -g /srv/comps.xml /srv/repo
make zasolo 1.0
make zaneedy 1.0 no-such-thing
mv /srv/build/RPMS/noarch/*.rpm /srv/second
createrepo_c -q /srv/second
