/*
 * Reads operations from standard input, a line each:
 *
 *	OP SERIAL [ARGS]
 *
 * It calls the routine of pmdaCache(3) and prints a line with the result. If the
 * result is an instance, its properties follow. Names are hexadecimal, "-" is the
 * empty one.
 */
#include <pcp/pmapi.h>
#include <pcp/pmda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *
unhex(const char *s)
{
	static char buf[4096];
	unsigned int byte;
	int n = 0;

	if (strcmp(s, "-") != 0)
		for (; sscanf(s, "%2x", &byte) == 1 && n < 4095; s += 2)
			buf[n++] = byte;
	buf[n] = '\0';
	return buf;
}

static const struct { const char *name; int op; } ops[] = {
	{"load", PMDA_CACHE_LOAD}, {"save", PMDA_CACHE_SAVE}, {"hideall", PMDA_CACHE_INACTIVE},
	{"active", PMDA_CACHE_SIZE_ACTIVE}, {"inactive", PMDA_CACHE_SIZE_INACTIVE}, {NULL, 0}
};

int
main(void)
{
	char line[16384], op[32], a[8192], *name;
	void *data;
	long num;
	int serial, sts, inst, i;
	pmInDom indom;

	while (fgets(line, sizeof(line), stdin) != NULL) {
		strcpy(a, "-");
		num = 0;
		if (sscanf(line, "%31s %d %8191s %ld", op, &serial, a, &num) < 2)
			return 1;
		indom = pmInDom_build(250, serial);
		data = NULL;
		name = "";
		inst = -1;
		if (strcmp(op, "add") == 0)
			printf("%d", pmdaCacheStore(indom, PMDA_CACHE_ADD, unhex(a), (void *)num));
		else if (strcmp(op, "hide") == 0)
			printf("%d", pmdaCacheStore(indom, PMDA_CACHE_HIDE, unhex(a), NULL));
		else if (strcmp(op, "lookup") == 0) {
			inst = atoi(a);
			sts = pmdaCacheLookup(indom, inst, &name, &data);
			printf(sts < 0 ? "%d" : "%d %d %ld %s", sts, inst, (long)data, name);
		} else if (strcmp(op, "lookupname") == 0) {
			sts = pmdaCacheLookupName(indom, unhex(a), &inst, &data);
			printf(sts < 0 ? "%d" : "%d %d %ld", sts, inst, (long)data);
		} else if (strcmp(op, "walk") == 0) {
			pmdaCacheOp(indom, PMDA_CACHE_WALK_REWIND);
			while ((inst = pmdaCacheOp(indom, PMDA_CACHE_WALK_NEXT)) >= 0)
				printf("%d ", inst);
		} else {
			for (i = 0; ops[i].name != NULL && strcmp(op, ops[i].name) != 0; i++)
				;
			if (ops[i].name == NULL)
				return 2;
			printf("%d", pmdaCacheOp(indom, ops[i].op));
		}
		putchar('\n');
		fflush(stdout);
	}
	return 0;
}
