// Package mmv instruments a Go program. Its metrics are in a file that is mapped into memory,
// which the agent mmv of pmcd reads (mmv(5), pmdammv(1)). The program needs neither cgo nor
// PCP and opens no port, and it does no work for clients.
//
//	var (
//		metrics  = mmv.Must(mmv.New(mmv.Config{Name: "shop"}))
//		requests = mmv.Must(metrics.Counter(mmv.Metric{Name: "requests", OneLine: "HTTP requests", Units: pdu.Count}))
//	)
//
//	func main() {
//		if err := metrics.Publish(); err != nil {
//			log.Print(err)
//		}
//		defer metrics.Close()
//		http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { requests.Inc() })
//		log.Print(http.ListenAndServe("localhost:8080", nil))
//	}
//
// While this runs, pminfo -f mmv.shop.requests shows the value.
//
// # Metrics
//
// A [Registry] has the metrics of a file. Its methods define metrics and return what
// updates their values:
//
//	Counter, FloatCounter   a number that increases
//	Gauge, FloatGauge       a number that goes up and down
//	String                  a text of at most 254 bytes
//	Elapsed                 the time spent in an activity
//
// A metric with a value for each of several things, such as disks, has an instance domain.
// [Registry.Instances] defines one, and its methods define the metrics that have a value
// for each of its instances:
//
//	disks, err := metrics.Instances(mmv.InDom{Names: []string{"sda", "sdb"}})
//	...
//	reads, err := disks.Counter(mmv.Metric{Name: "disk.reads", Units: pdu.Count})
//	...
//	reads.At("sda").Inc()
//
// Instances may be added and removed at any time.
//
// # Files
//
// [Registry.Publish] writes the file. Before that, and after [Registry.Close], updates
// change the values, but no client sees them. So metrics can be variables of a package, and a program goes on
// without PCP. Values remain when the file is written again: for new instances, or for
// metrics that were defined since. The new file is complete before it gets the name of
// the old one, so that a reader never sees a part of it. It has another inode and
// generation number, by which the agent notices.
//
// The agent mmv of this module reads files of up to 32 MiB; that of PCP has no such limit. A
// number takes 32 bytes in the file, an instance 280 and a text 256.
//
// Everything that a file cannot represent is an error of the function that defines or adds
// it. Nothing is truncated. What is defined in variables of a package is given to [Must].
//
// Files have version 3 of the format. All numbers have 64 bits. On systems without mmap(2)
// Publish fails with [errors.ErrUnsupported].
//
// # Concurrency
//
// All methods may be called concurrently. An update of a number is one atomic operation in
// the file, which takes some nanoseconds and allocates nothing. No update is lost while the
// file is written again. An update of a [String] or of an [Elapsed] takes a lock that only
// this value has, and allocates nothing, either.
//
// A nil pointer to a value ignores updates, and its value is zero.
package mmv
