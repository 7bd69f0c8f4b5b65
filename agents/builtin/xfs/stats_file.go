package xfs

import (
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
)

// A line describes consecutive numbers in a line of the statistics
// (xfs_stats_format in the kernel) that are consecutive items of PCP.
type line struct {
	key         string // the first word
	firstNumber int    // index of the first number in the line, 0 for that after the key
	firstItem   int    // item of the first number
	prefix      string // of all names
	names       string
}

// lines has all lines except that of buffers, whose metrics are in other clusters.
var lines = []line{
	{"extent_alloc", 0, 0, "allocs.", "alloc_extent alloc_block free_extent free_block"},
	{"abt", 0, 4, "alloc_btree.", "lookup compare insrec delrec"},
	{"blk_map", 0, 8, "block_map.", "read_ops write_ops unmap add_exlist del_exlist look_exlist cmp_exlist"},
	{"bmbt", 0, 15, "bmap_btree.", "lookup compare insrec delrec"},
	{"dir", 0, 19, "dir_ops.", "lookup create remove getdents"},
	{"trans", 0, 23, "transactions.", "sync async empty"},
	{"ig", 0, 26, "inode_ops.", "ig_attempts ig_found ig_frecycle ig_missed ig_dup ig_reclaims ig_attrchg"},
	{"log", 0, 33, "log.", "writes blocks noiclogs force force_sleep"},
	{"push_ail", 0, 38, "log_tail.", "try_logspace sleep_logspace"},
	{"push_ail", 2, 40, "log_tail.push_ail.", "pushes success pushbuf pinned locked flushing restarts flush"},
	{"xpc", 0, 48, "xstrat.", "bytes"},
	{"xstrat", 0, 49, "xstrat.", "quick split"},
	{"rw", 0, 51, "", "write"},
	{"xpc", 1, 52, "", "write_bytes"},
	{"rw", 1, 53, "", "read"},
	{"xpc", 2, 54, "", "read_bytes"},
	{"attr", 0, 55, "attr.", "get set remove list"},
	{"qm", 0, 59, "quota.", "reclaims reclaim_misses dquot_dups cachemisses cachehits wants"},
	{"icluster", 0, 67, "", "iflush_count icluster_flushcnt icluster_flushinode"},
	{"vnodes", 0, 70, "vnodes.", "active alloc get hold rele reclaim remove free"},
	// C differs: the values of lookup and compare are swapped in inode, free_inode,
	// reverse_map and refcount.
	{"abtb2", 0, 80, "btree.alloc_blocks.", btree},
	{"abtc2", 0, 95, "btree.alloc_contig.", btree},
	{"bmbt2", 0, 110, "btree.block_map.", btree},
	{"ibt2", 0, 125, "btree.inode.", btree},
	{"fibt2", 0, 140, "btree.free_inode.", btree},
	{"rmapbt", 0, 155, "btree.reverse_map.", btree},
	{"refcntbt", 0, 170, "btree.refcount.", btree},
	{"qm", 6, 185, "quota.", "dquots dquots_unused"},
	{"zoned", 0, 196, "zoned.", "read_calls write_calls zone_reset_calls"},
	{"gc", 1, 199, "zoned.", "bytes"}, // the number after "gc xpc"
	{"defer_relog", 0, 200, "", "defer_relog"},
	{"rmapbt_mem", 0, 201, "btree.rmap_mem.", btree},
	{"rcbagbt", 0, 216, "btree.rcbag.", btree},
	{"rtrmapbt", 0, 231, "btree.rtrmap.", btree},
	{"rtrmapbt_mem", 0, 246, "btree.rtrmap_mem.", btree},
	{"rtrefcntbt", 0, 261, "btree.rtrefcount.", btree},
	{"metafile", 0, 276, "metafile.", "inodes"},
}

var buffers = line{"buf", 0, 0, "buffer.", "get create get_locked get_locked_waited busy_locked miss_locked page_retries page_found get_read"}

const btree = "lookup compare insrec delrec newroot killroot increment decrement lshift rshift split join alloc free moves"

// maxNumbers is the largest number of numbers in a line.
const maxNumbers = 15

// A layout has, for the key of each line, the index of its first number in
// stats.nums.
type layout map[string]int

func newLayout() layout {
	l := make(layout)
	for _, line := range append(lines, buffers) {
		if _, ok := l[line.key]; !ok {
			l[line.key] = len(l) * maxNumbers
		}
	}
	return l
}

// stats are the numbers of a file of statistics. A number that the file does not
// have, as with older kernels, is 0.
type stats struct {
	ok   bool
	nums []uint64
}

// parse sets s to the numbers in b.
func (l layout) parse(s *stats, b []byte) {
	if s.nums == nil {
		s.nums = make([]uint64, len(l)*maxNumbers)
	}
	clear(s.nums)
	s.ok = true
	l.merge(s, b)
}

// merge sets the numbers of those lines that are in b.
func (l layout) merge(s *stats, b []byte) {
	for len(b) > 0 {
		var line, word []byte
		line, b = sysfile.CutLine(b)
		word, line = sysfile.Field(line)
		at, ok := l[string(word)]
		if !ok {
			continue
		}
		for i := range maxNumbers {
			word, line = sysfile.Field(line)
			if len(word) == 0 {
				break
			}
			s.nums[at+i], _ = sysfile.Uint(word)
		}
	}
}
