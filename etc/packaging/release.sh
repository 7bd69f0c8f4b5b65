#!/bin/sh
# release.sh - build what is released: archives, packages, list of modules, checksums.
#
# usage: etc/packaging/release.sh [-k KIND]... [-a ARCH]... VERSION OUT
#
# KIND is static, cgo or package [all]; ARCH is one of Go's [all that KIND has]. The
# same sources, VERSION and release of Go give the same bytes in any directory.
#
# static    OUT/pmcd-VERSION-linux-ARCH-static.tar.gz: no cgo, so no C library
# cgo       OUT/pmcd-VERSION-linux-ARCH.tar.gz: with plugins, for glibc
# package   deb and rpm of what cgo has built
#
# cgo needs a C compiler for ARCH and the C library of sysroot.sh.
# SOURCE_DATE_EPOCH is the time of all files.
set -eu

die() { printf 'release: %s\n' "$*" >&2; exit 1; }
say() { printf 'release: %s\n' "$*"; }

kinds=
arches=
while getopts k:a: opt; do
	case $opt in
	k) kinds="$kinds $OPTARG" ;;
	a) arches="$arches $OPTARG" ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -eq 2 ] || die "usage: etc/packaging/release.sh [-k KIND]... [-a ARCH]... VERSION OUT"
version=$1
kinds=${kinds:-static cgo package}
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$(dirname "$0")/../.."
umask 022

epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# What the environment says would be in the programs.
export SOURCE_DATE_EPOCH="$epoch" LC_ALL=C TZ=UTC GOFLAGS='' GOWORK=off GOOS=linux
export GOAMD64=v1 GOARM64=v8.0 GOPPC64=power8 GORISCV64=rva20u64 CGO_CFLAGS=-O2 CGO_LDFLAGS=''

programs="./cmd/pmcd ./cmd/pmcd/pmcdctl ./cmd/pmcd/pmcd-prometheus"

# The newest release of the C library that cgo may need: that of RHEL 8.
glibc=2.28

wanted() { # kind arch
	case " $kinds " in *" $1 "*) ;; *) return 1 ;; esac
	case " ${arches:-$2} " in *" $2 "*) ;; *) return 1 ;; esac
}

# build builds package $1 as file $2. The build ID would depend on directories.
build() {
	out_file=$2
	pkg=$1
	shift 2
	go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.build=$version" "$@" -o "$out_file" "$pkg"
}

# triplet prints the name of a C compiler for an architecture, if there is that compiler.
triplet() {
	case $1 in
	amd64) t=x86_64-linux-gnu ;;
	arm64) t=aarch64-linux-gnu ;;
	esac
	command -v "$t-gcc" >/dev/null || die "no C compiler for $1: apt-get install gcc-$(echo "$t" | tr _ -), or leave $1 out (make release ARCHS=...)"
	echo "$t"
}

# compiler sets CC for an architecture: the C library is not this host's.
compiler() {
	triplet=$(triplet "$1")
	root=$(etc/packaging/sysroot.sh "$1")
	export CC="$triplet-gcc --sysroot=$root -B$root/usr/lib/$triplet/ -L$root/usr/lib/$triplet -L$root/lib/$triplet -isystem $root/usr/include/$triplet -isystem $root/usr/include"
}

# checked fails if a program needs a later C library than $glibc.
checked() {
	needs=$(readelf -W --dyn-syms "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -n 1)
	[ -n "$needs" ] || die "$1 needs no C library"
	[ "$(printf '%s\n' "$needs" $glibc | sort -V | tail -n 1)" = $glibc ] || die "$1 needs glibc $needs, later than $glibc"
}

# archive packs a directory of programs with what "make install" needs.
archive() { # bin name
	top=$work/pack/$2
	mkdir -p "$top"
	cp -R "$1" "$top/bin"
	cp -R etc/packaging/copyright Makefile LICENSE README.md CHANGELOG.md SECURITY.md docs etc systemd "$top"
	rm -rf "$top/docs/docstest"
	tar -C "$work/pack" --sort=name --format=gnu --mtime="@$epoch" --owner=0 --group=0 --numeric-owner \
		--mode=u=rwX,go=rX -cf - "$2" | gzip -9n >"$out/$2.tar.gz"
	rm -rf "$work/pack"
	say "$2.tar.gz"
}

# What is missing is found before anything is built.
for arch in amd64 arm64; do
	if wanted cgo $arch || wanted package $arch; then triplet $arch >/dev/null; fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

for arch in amd64 arm64 ppc64le s390x riscv64; do
	wanted static $arch || continue
	export GOARCH=$arch CGO_ENABLED=0
	for p in $programs; do build "$p" "$work/static-$arch/${p##*/}"; done
	archive "$work/static-$arch" "pmcd-$version-linux-$arch-static"
done

for arch in amd64 arm64; do
	wanted cgo $arch || wanted package $arch || continue
	export GOARCH=$arch CGO_ENABLED=1
	compiler $arch
	bin=$work/cgo-$arch
	for p in $programs; do build "$p" "$bin/${p##*/}"; done
	for d in agents/builtin/*/plugin; do
		name=$(basename "$(dirname "$d")")
		build "./$d" "$bin/plugins/pmda_$name.so" -buildmode=plugin
	done
	build ./agents/builtin/openmetrics/pmdaopenmetrics "$bin/pmdas/pmdaopenmetrics"
	build ./agents/builtin/pmdas "$bin/pmdas/pmdas"
	for f in "$bin/pmcd" "$bin/pmcd-prometheus" "$bin"/plugins/* "$bin"/pmdas/*; do checked "$f"; done
	sed -n 's/^\t"\(pmda[a-z0-9]*\)":.*/\1/p' agents/builtin/pmdas/main.go | while read -r n; do ln -s pmdas "$bin/pmdas/$n"; done
	! wanted cgo $arch || archive "$bin" "pmcd-$version-linux-$arch"
	! wanted package $arch || etc/packaging/packages.sh "$version" $arch "$bin" "$out"
done

(
	# The modules are the same for all, and this runs on any.
	unset CC GOARCH
	export CGO_ENABLED=0
	set -- "$work"/*/pmcd "$work"/*/pmcdctl "$work"/*/pmcd-prometheus
	go run -buildvcs=false ./etc/packaging/sbom "$version" "$@" >"$out/pmcd-$version.cdx.json"
	say "pmcd-$version.cdx.json"
)
etc/packaging/sums.sh "$version" "$out"
say "SHA256SUMS"
