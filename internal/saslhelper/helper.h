/*
 * What the files of the SASL helper share.
 *
 * The program is built without headers of libsasl2. What is declared here is from its
 * manual pages, sasl(3) and those listed there, and is part of its stable ABI.
 *
 * Names that several files use begin with sh_, and C objects that a process of this
 * program loads do not see them.
 */

#include <stddef.h>

enum { /* result codes of libsasl2 */
	SASL_CONTINUE = 1,
	SASL_OK = 0,
	SASL_FAIL = -1,
	SASL_BUFOVER = -3,
	NO_CHALLENGE = -1000, /* not of libsasl2: it wants to go on but has nothing to send */
};
enum { /* callbacks */
	CB_LIST_END = 0,
	CB_LOG = 2,
};
enum { /* properties */
	PROP_USERNAME = 0,
	PROP_SSF_EXTERNAL = 100,
	PROP_SEC_PROPS = 101,
};
enum { LOG_LEVEL_WARNING = 3 }; /* 1 error, 2 failed login, 3 warning; above that texts may have secrets */

struct callback {
	unsigned long id;
	int (*proc)(void);
	void *context;
};
struct security_properties {
	unsigned min_ssf, max_ssf, maxbufsize, flags;
	const char **names, **values;
};

#pragma GCC visibility push(hidden)

/* The functions of libsasl2. */
extern struct sasl_functions {
	int (*server_init)(const struct callback *, const char *application);
	int (*server_new)(const char *service, const char *host, const char *realm, const char *local,
	    const char *remote, const struct callback *, unsigned flags, void **conn);
	int (*listmech)(void *conn, const char *user, const char *prefix, const char *separator,
	    const char *suffix, const char **list, unsigned *length, int *count);
	int (*server_start)(void *conn, const char *mechanism, const char *in, unsigned in_length,
	    const char **out, unsigned *out_length);
	int (*server_step)(void *conn, const char *in, unsigned in_length, const char **out, unsigned *out_length);
	int (*getprop)(void *conn, int property, const void **value);
	int (*setprop)(void *conn, int property, const void *value);
	const char *(*errstring)(int code, const char *languages, const char **language);
} sh_sasl;

enum {
	CONTROL = 3,       /* the descriptor of the socket to pmcd; that of a login in its child */
	MAX_PAYLOAD = 2047, /* of a message: the limit of PCP's clients and C pmcd */
	MAX_LOG = 500,
	MAX_LOGINS = 256,
	NICE = 5, /* logins run at a lower scheduling priority than metrics */
};

extern char sh_message[1 + MAX_PAYLOAD + 1]; /* the last one from pmcd, and a NUL */
extern unsigned sh_time_limit; /* for a call of the library, in seconds. pmcd has a shorter one */

int sh_send_message(int flags, char type, const int *number, const void *text, size_t length);
int sh_send_log(int level, const char *text);
void sh_fail(char type, const char *format, ...);
const char *sh_load_library(char **names);
void sh_init_library(void);
void sh_serve_login(void);

#pragma GCC visibility pop
