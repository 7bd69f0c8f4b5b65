/*
 * repeated HOST TIMES NAME... fetches the metrics TIMES times in one request, each time in another
 * order, and prints all values.
 */
#include <pcp/pmapi.h>
#include <stdio.h>
#include <stdlib.h>

static void print(const pmValueSet *vs)
{
	printf("%s %d", pmIDStr(vs->pmid), vs->numval);
	for (int i = 0; i < vs->numval; i++) {
		const pmValue *v = &vs->vlist[i];
		printf(" %d:", v->inst);
		if (vs->valfmt == PM_VAL_INSITU) {
			printf("%x", v->value.lval);
			continue;
		}
		const unsigned char *b = (const unsigned char *)v->value.pval->vbuf;
		printf("%d.", v->value.pval->vtype);
		for (int k = 0; k < (int)v->value.pval->vlen - PM_VAL_HDR_SIZE; k++)
			printf("%02x", b[k]);
	}
	putchar('\n');
}

int main(int argc, char **argv)
{
	int times = atoi(argv[2]), n = argc - 3, sts;
	pmID *ids = calloc(n, sizeof(*ids)), *all = calloc((size_t)n * times, sizeof(*all));
	pmResult *r;

	if ((sts = pmNewContext(PM_CONTEXT_HOST, argv[1])) < 0 ||
	    (sts = pmLookupName(n, (const char **)argv + 3, ids)) < 0) {
		printf("%s\n", pmErrStr(sts));
		return 1;
	}
	for (int i = 0; i < n * times; i++)
		all[i] = ids[(i + i / n * 3) % n];
	for (int round = 0; round < 2; round++) {
		if ((sts = pmFetch(n * times, all, &r)) < 0) {
			printf("%s\n", pmErrStr(sts));
			return 1;
		}
		printf("%d\n", r->numpmid);
		for (int i = 0; i < r->numpmid; i++)
			print(r->vset[i]);
		pmFreeResult(r);
	}
	return 0;
}
