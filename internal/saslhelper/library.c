//go:build cgo

/* libsasl2: how it is loaded and initialised. */

#define _GNU_SOURCE
#include "helper.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#ifdef __GLIBC__

struct sasl_functions sh_sasl;

/* Loads the first of these libraries that there is, and returns its name. */
const char *sh_load_library(char **names)
{
	const struct { void *function; const char *name; } symbols[] = {
		{ &sh_sasl.server_init, "sasl_server_init" }, { &sh_sasl.server_new, "sasl_server_new" },
		{ &sh_sasl.listmech, "sasl_listmech" }, { &sh_sasl.server_start, "sasl_server_start" },
		{ &sh_sasl.server_step, "sasl_server_step" }, { &sh_sasl.getprop, "sasl_getprop" },
		{ &sh_sasl.setprop, "sasl_setprop" }, { &sh_sasl.errstring, "sasl_errstring" },
	};
	char first[MAX_LOG / 2] = "no library is named";
	void *library = NULL, *f;

	for (char **name = names; library == NULL && *name != NULL; name++) {
		if ((library = dlopen(*name, RTLD_NOW | RTLD_GLOBAL)) != NULL)
			names = name;
		else if (name == names)
			snprintf(first, sizeof(first), "%s", dlerror());
	}
	if (library == NULL)
		sh_fail('N', "%s", first);
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		if ((f = dlsym(library, symbols[i].name)) == NULL)
			sh_fail('N', "%s has no function %s", *names, symbols[i].name);
		memcpy(symbols[i].function, &f, sizeof(f));
	}
	return *names;
}

#endif
