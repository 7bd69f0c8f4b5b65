package proc

import (
	"bytes"
	"errors"
	"math"
	"slices"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
)

// gpuFields are the names of the lines of /proc/PID/fdinfo/FD that have a metric, in the
// order of its items, see the kernel's Documentation/gpu/drm-usage-stats.rst and amdgpu:
//
//	drm-driver:	amdgpu
//	drm-client-id:	422
//	drm-pdev:	0000:0c:00.0
//	drm-memory-vram:	2048 KiB
//
// C differs: it does not read the lines drm-shared, and adds numbers of all units.
var gpuFields = [...]string{
	"drm-memory-cpu", "drm-memory-gtt", "drm-memory-vram", "drm-shared-cpu", "drm-shared-gtt", "drm-shared-vram",
	"amd-evicted-visible-vram", "amd-evicted-vram", "amd-memory-visible-vram",
	"amd-requested-gtt", "amd-requested-visible-vram", "amd-requested-vram",
}

const (
	numGPUFields = len(gpuFields)

	// maxFDs is the largest number of descriptors of a process that are looked at. A
	// process with more has no values: a user may have a million.
	maxFDs = 4096

	// maxFDInfo is the number of bytes that are read of a file. Those of GPUs have a
	// kilobyte.
	maxFDInfo = 16 << 10
)

// A gpuClient identifies an open file of a GPU. Several descriptors may be the same
// open file.
type gpuClient struct{ device, id string }

// errManyFDs ends the search for descriptors of GPUs.
var errManyFDs = errors.New("too many descriptors")

// readGPU sums the memory of the AMD GPUs that a process uses. It reads only the
// files of descriptors of GPUs, which are links to /dev/dri: others may be
// expensive, such as that of epoll(7) with a line for each file that is watched.
//
// On a host without the driver all values are 0.
//
// C differs: it reads the files of all descriptors, and takes clients of two GPUs
// for one if they have the same id.
func readGPU(p *process, r record) error {
	max := p.tree.maxFDs
	if !p.tree.hasAMDGPU() {
		max = 1
	}
	fds, err := p.listFDs(max)
	switch many := errors.Is(err, errManyFDs); {
	case err != nil && !many:
		return err
	case max == 1 && len(fds) == 1:
		fds = nil
	case many || len(fds) == 0:
		return nil
	}
	var clients map[gpuClient]bool
	var sums [numGPUFields]uint64
	for _, fd := range fds {
		if err := p.tree.ended(); err != nil {
			return err
		}
		if link, err := p.path("fd/").Num(fd).Link(); err != nil || !bytes.HasPrefix(link, []byte("/dev/dri/")) {
			continue
		}
		text, err := p.path("fdinfo/").Num(fd).Text(maxFDInfo)
		if err != nil {
			continue // the descriptor was closed
		}
		c, sizes, ok := parseGPU(text)
		if !ok || clients[c] {
			continue
		}
		if clients == nil {
			clients = make(map[gpuClient]bool)
		}
		clients[c] = true
		for i, n := range sizes {
			sums[i] += n
		}
	}
	for i, n := range sums {
		r.set(i, n)
	}
	r.state[r.row] = filled
	return nil
}

// hasAMDGPU reports whether the driver of AMD GPUs is loaded. It is looked for once in
// a request.
func (t *tree) hasAMDGPU() bool {
	if t.gpuRequest != t.request {
		t.gpuRequest, t.amdGPU = t.request, t.Path("/sys/module/amdgpu").Exists()
	}
	return t.amdGPU
}

// listFDs returns the descriptors of a process. The error is errManyFDs if there are
// more than max. The result is valid until the next call.
func (p *process) listFDs(max int) ([]int32, error) {
	fds := p.tree.fds[:0]
	add := func(name []byte, _ byte) error {
		switch n, ok := sysfile.Uint(name); {
		case !ok || n > math.MaxInt32:
			return nil
		case len(fds) == max:
			return errManyFDs
		default:
			fds = append(fds, int32(n))
			return nil
		}
	}
	err := p.path("fd").ListUntil(add)
	p.tree.fds = fds
	return fds, err
}

// parseGPU parses the text of a descriptor. ok is false if it is not that of an AMD
// GPU.
func parseGPU(b []byte) (c gpuClient, kib [numGPUFields]uint64, ok bool) {
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		name, value, found := bytes.Cut(line, []byte{':'})
		if !found {
			continue
		}
		switch string(name) {
		case "drm-driver":
			ok = string(bytes.TrimSpace(value)) == "amdgpu"
		case "drm-client-id":
			c.id = string(bytes.TrimSpace(value))
		case "drm-pdev":
			c.device = string(bytes.TrimSpace(value))
		default:
			if i := slices.Index(gpuFields[:], string(name)); i >= 0 {
				kib[i] = kibOf(value)
			}
		}
	}
	return c, kib, ok && c.id != ""
}

// kibOf returns a size in KiB, or 0 if it is malformed. Without a unit it is in
// bytes.
func kibOf(value []byte) uint64 {
	word, rest := sysfile.Field(value)
	n, ok := sysfile.Uint(word)
	unit, _ := sysfile.Field(rest)
	if !ok {
		return 0
	}
	switch string(unit) {
	case "":
		return n >> 10
	case "KiB":
		return n
	case "MiB":
		return n << 10
	case "GiB":
		return n << 20
	}
	return 0
}
