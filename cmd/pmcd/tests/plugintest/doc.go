// Package plugintest builds pmcd and plugins of other modules in the ways that
// docs/plugins.md tells of, and has each pmcd load each plugin.
//
// It takes a minute or more and needs no network: the module cache that it
// fills is from the one that built the test. There are no tests with the race
// detector, since it would be in none of the programs.
package plugintest
