/*
 * Reads operations from standard input, a line each:
 *
 *	OP SERIAL [ARGS]
 *
 * It calls the routine of pmdaCache(3) and prints a line with the result. If the
 * result is an instance, its properties follow. Names and keys are hexadecimal,
 * "-" is the empty one.
 */
#include <pcp/pmapi.h>
#include <pcp/pmda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PMDA_CACHE_WRITE
#define PMDA_CACHE_WRITE 21
#endif

static char *
unhex(const char *s, int *len)
{
	static char bufs[2][4096];
	static int which;
	char *buf = bufs[which = !which];
	unsigned int byte;
	int n = 0;

	if (strcmp(s, "-") != 0)
		for (; sscanf(s, "%2x", &byte) == 1 && n < 4095; s += 2)
			buf[n++] = byte;
	buf[n] = '\0';
	if (len != NULL)
		*len = n;
	return buf;
}

static const struct { const char *name; int op; } ops[] = {
	{"load", PMDA_CACHE_LOAD}, {"save", PMDA_CACHE_SAVE}, {"sync", PMDA_CACHE_SYNC},
	{"write", PMDA_CACHE_WRITE}, {"activateall", PMDA_CACHE_ACTIVE},
	{"hideall", PMDA_CACHE_INACTIVE}, {"cullall", PMDA_CACHE_CULL},
	{"active", PMDA_CACHE_SIZE_ACTIVE}, {"inactive", PMDA_CACHE_SIZE_INACTIVE},
	{"reuse", PMDA_CACHE_REUSE}, {"reorg", PMDA_CACHE_REORG},
	{"strings", PMDA_CACHE_STRINGS}, {NULL, 0}
};

int
main(void)
{
	char line[16384], op[32], a[8192], b[8192], *name;
	void *data;
	long num;
	int serial, sts, inst, len, i;
	pmInDom indom;

	while (fgets(line, sizeof(line), stdin) != NULL) {
		strcpy(a, "-");
		strcpy(b, "-");
		num = 0;
		if (sscanf(line, "%31s %d %8191s %8191s %ld", op, &serial, a, b, &num) < 2)
			return 1;
		indom = pmInDom_build(250, serial);
		data = NULL;
		name = "";
		inst = -1;
		if (strcmp(op, "add") == 0)
			printf("%d", pmdaCacheStore(indom, PMDA_CACHE_ADD, unhex(a, NULL), (void *)num));
		else if (strcmp(op, "hide") == 0)
			printf("%d", pmdaCacheStore(indom, PMDA_CACHE_HIDE, unhex(a, NULL), NULL));
		else if (strcmp(op, "cull") == 0)
			printf("%d", pmdaCacheStore(indom, PMDA_CACHE_CULL, unhex(a, NULL), NULL));
		else if (strcmp(op, "addkey") == 0) {
			char *key = unhex(b, &len);
			printf("%d", pmdaCacheStoreKey(indom, PMDA_CACHE_ADD, unhex(a, NULL), len, key, (void *)num));
		} else if (strcmp(op, "lookup") == 0) {
			inst = atoi(a);
			sts = pmdaCacheLookup(indom, inst, &name, &data);
			printf(sts < 0 ? "%d" : "%d %d %ld %s", sts, inst, (long)data, name);
		} else if (strcmp(op, "lookupname") == 0) {
			sts = pmdaCacheLookupName(indom, unhex(a, NULL), &inst, &data);
			printf(sts < 0 ? "%d" : "%d %d %ld", sts, inst, (long)data);
		} else if (strcmp(op, "lookupkey") == 0) {
			char *key = unhex(a, &len);
			sts = pmdaCacheLookupKey(indom, "", len, key, &name, &inst, &data);
			printf(sts < 0 ? "%d" : "%d %d %ld %s", sts, inst, (long)data, name);
		} else if (strcmp(op, "purge") == 0)
			printf("%d", pmdaCachePurge(indom, atoi(a)));
		else if (strcmp(op, "resize") == 0)
			printf("%d", pmdaCacheResize(indom, atoi(a)));
		else if (strcmp(op, "walk") == 0) {
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
