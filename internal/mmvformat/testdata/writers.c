// Writes c_v1.mmv, c_v2.mmv and c_v3.mmv with PCP's library, to the directory in its
// argument (Debian's libpcp-mmv1-dev 6.0.3):
//
//	cc -o writers writers.c -lpcp_mmv -lpcp && ./writers $PWD

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <pcp/pmapi.h>
#include <pcp/mmv_stats.h>

#define LONG "name.of.more.than.63.bytes.that.is.in.the.section.of.strings.and.not.in.the.entry"

#define COUNT MMV_UNITS(0, 0, 1, 0, 0, 0)
#define BYTES MMV_UNITS(1, 0, 0, 0, 0, 0)
#define MSEC MMV_UNITS(0, 1, 0, 0, PM_TIME_MSEC, 0)
#define NONE MMV_UNITS(0, 0, 0, 0, 0, 0)

static mmv_instances_t insts[] = {{0, "zero"}, {7, "seven"}, {-2, "minus two"}};
static mmv_instances2_t insts2[] = {{0, "zero"}, {7, "seven " LONG}};

static mmv_indom_t indoms[] = {{5, 3, insts, "short text of 5", "long text of 5"}};
static mmv_indom2_t indoms2[] = {{5, 2, insts2, "short text of 5", NULL}};

static mmv_metric_t metrics[] = {
	{"s32", 1, MMV_TYPE_I32, MMV_SEM_INSTANT, NONE, 0, "short text", "long text"},
	{"u32", 2, MMV_TYPE_U32, MMV_SEM_COUNTER, COUNT},
	{"s64", 3, MMV_TYPE_I64, MMV_SEM_DISCRETE, BYTES},
	{"u64", 4, MMV_TYPE_U64, MMV_SEM_COUNTER, COUNT},
	{"float", 5, MMV_TYPE_FLOAT, MMV_SEM_INSTANT, MSEC},
	{"double", 6, MMV_TYPE_DOUBLE, MMV_SEM_INSTANT, MSEC},
	{"string", 7, MMV_TYPE_STRING, MMV_SEM_INSTANT, NONE},
	{"elapsed", 8, MMV_TYPE_ELAPSED, MMV_SEM_COUNTER, NONE},
	{"none", 9, MMV_TYPE_NOSUPPORT, MMV_SEM_INSTANT, NONE},
	{"insts.u64", 1023, MMV_TYPE_U64, MMV_SEM_COUNTER, COUNT, 5},
	{"insts.string", 10, MMV_TYPE_STRING, MMV_SEM_INSTANT, NONE, 5},
};
static mmv_metric2_t metrics2[] = {
	{"double", 6, MMV_TYPE_DOUBLE, MMV_SEM_INSTANT, MSEC, 0, NULL, "long text"},
	{LONG, 7, MMV_TYPE_U32, MMV_SEM_COUNTER, COUNT},
	{"insts.s64", 8, MMV_TYPE_I64, MMV_SEM_INSTANT, BYTES, 5},
};

static char *path(const char *dir, const char *name)
{
	static char p[PATH_MAX];
	snprintf(p, sizeof p, "%s/%s", dir, name);
	return p;
}

int main(int argc, char **argv)
{
	const char *dir = argv[argc - 1];
	pmAtomValue *v;
	mmv_registry_t *r;
	void *m;

	m = mmv_stats_init(path(dir, "c_v1.mmv"), 21, 0, metrics, sizeof metrics / sizeof metrics[0], indoms, 1);
	mmv_stats_set(m, "s32", "", -5);
	mmv_stats_set(m, "u32", "", 4000000000.0);
	mmv_stats_set(m, "s64", "", -6);
	mmv_stats_inc(m, "u64", "");
	mmv_stats_set(m, "float", "", 1.5);
	mmv_stats_set(m, "double", "", 0.25);
	mmv_stats_set_string(m, "string", "", "text");
	v = mmv_stats_interval_start(m, NULL, "elapsed", "");
	mmv_stats_interval_end(m, v);
	v->ll = 12345; // the same in each run
	mmv_stats_add(m, "insts.u64", "seven", 77);
	mmv_stats_set_string(m, "insts.string", "minus two", "other text");

	m = mmv_stats2_init(path(dir, "c_v2.mmv"), 22, MMV_FLAG_NOPREFIX | MMV_FLAG_SENTINEL, metrics2, 3, indoms2, 1);
	mmv_stats_set(m, "double", "", NAN);
	mmv_stats_set(m, LONG, "", 9);
	mmv_stats_set(m, "insts.s64", "zero", -1);
	mmv_stats_set(m, "insts.s64", "seven " LONG, -7);

	r = mmv_stats_registry(path(dir, "c_v3.mmv"), 23, 0);
	mmv_stats_add_indom(r, 5, "short text of 5", "long text of 5");
	mmv_stats_add_instance(r, 5, 0, "zero");
	mmv_stats_add_instance(r, 5, 1, "one");
	mmv_stats_add_metric(r, "u64", 1, MMV_TYPE_U64, MMV_SEM_COUNTER, (pmUnits)COUNT, 0, "short text", "long text");
	mmv_stats_add_metric(r, "insts.float", 2, MMV_TYPE_FLOAT, MMV_SEM_INSTANT, (pmUnits)MSEC, 5, "", "");
	mmv_stats_add_metric(r, "running", 3, MMV_TYPE_ELAPSED, MMV_SEM_COUNTER, (pmUnits)NONE, 0, "", "");
	mmv_stats_add_registry_label(r, "of_cluster", "21", MMV_NUMBER_TYPE, 0);
	mmv_stats_add_metric_label(r, 1, "of_item", "\"text\"", MMV_STRING_TYPE, 1);
	mmv_stats_add_indom_label(r, 5, "of_indom", "true", MMV_BOOLEAN_TYPE, 0);
	mmv_stats_add_instance_label(r, 5, 1, "of_instance", "[1,2]", MMV_ARRAY_TYPE, 0);
	mmv_stats_add_instance_label(r, 5, 0, "of_instance", "{\"a\":1,\"b\":null}", MMV_MAP_TYPE, 0);
	m = mmv_stats_start(r);
	mmv_stats_set(m, "u64", "", 18446744073709550000.0);
	mmv_stats_set(m, "insts.float", "one", 0.5);
	v = mmv_stats_interval_start(m, NULL, "running", "");
	v->ll = 1000000;
	return 0;
}
