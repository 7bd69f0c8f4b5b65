// Package fuzztest runs pmcd with the race detector and fuzzes it as a whole: clients
// that send random PDUs, agents that answer wrongly, late or never and are killed,
// reloads of good and bad files, and times without descriptors. Meanwhile clients with
// ordinary requests must get correct replies. Afterwards pmcd must be as it was before.
//
// A seed determines what is done, but not how that is interleaved: a run with the
// same seed does the same, and may find a fault or not.
//
// Replies have limits of real time. Run it for hours on a machine that does nothing else.
//
// Environment:
//
//	PMCD_FUZZ_TIME=1h     how long; some seconds by default
//	PMCD_FUZZ_SEED=N      the seed of the first episode; that of the next one is N+1
//	PMCD_UNDER_TEST=PATH  the program, built with -race; cmd/pmcd by default
package fuzztest
