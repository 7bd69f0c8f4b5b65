// Package installtest tries what is installed: make install and uninstall, the
// units, the manual page, and the script that puts pmcd in the place of PCP's.
package installtest
