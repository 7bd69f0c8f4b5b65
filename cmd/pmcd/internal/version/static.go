//go:build !cgo

package version

// Limits says what this build of pmcd cannot do, because it has no cgo. It is "" if there
// is nothing.
const Limits = "this is a static build, without cgo: agents cannot be Go plugins or shared objects in C, " +
	"clients cannot log in (SASL), and users and groups are those of /etc/passwd and /etc/group, not those of sssd or LDAP"
