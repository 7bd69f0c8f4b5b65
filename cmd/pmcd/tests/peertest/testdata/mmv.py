"""Writes an MMV file with PCP's module. The argument is its name."""
import sys

import cmmv
import cpmapi as api
from pcp import mmv, pmapi

indoms = [mmv.mmv_indom(1, "one", "Text of one."), mmv.mmv_indom(2)]
indoms[0].set_instances([mmv.mmv_instance(1, "first"), mmv.mmv_instance(5, "fifth one")])
indoms[1].set_instances([mmv.mmv_instance(7, "seven"), mmv.mmv_instance(0, "zero")])
NONE = pmapi.pmUnits(0, 0, 0, 0, 0, 0)


def metric(name, item, kind, sem, units=NONE, indom=0):
    return mmv.mmv_metric(name, item, kind, sem, units, indom, "short " + name, "long " + name)


values = mmv.MemoryMappedValues(sys.argv[1], 0, 0)
values.add_indoms(indoms)
values.add_metrics([
    metric("counter", 1, cmmv.MMV_TYPE_U32, cmmv.MMV_SEM_COUNTER, pmapi.pmUnits(0, 0, 1, 0, 0, api.PM_COUNT_ONE), 1),
    metric("int32", 2, cmmv.MMV_TYPE_I32, cmmv.MMV_SEM_INSTANT),
    metric("int64", 3, cmmv.MMV_TYPE_I64, cmmv.MMV_SEM_DISCRETE, pmapi.pmUnits(1, 0, 0, api.PM_SPACE_KBYTE, 0, 0)),
    metric("uint64", 4, cmmv.MMV_TYPE_U64, cmmv.MMV_SEM_COUNTER),
    metric("float", 5, cmmv.MMV_TYPE_FLOAT, cmmv.MMV_SEM_INSTANT),
    metric("by", 6, cmmv.MMV_TYPE_DOUBLE, cmmv.MMV_SEM_INSTANT, NONE, 2),
    metric("text", 7, cmmv.MMV_TYPE_STRING, cmmv.MMV_SEM_DISCRETE),
    metric("elapsed", 8, cmmv.MMV_TYPE_ELAPSED, cmmv.MMV_SEM_COUNTER),
])
values.start()


def handle(name, inst=None):
    return values.lookup_mapping(name, inst)


values.inc(handle("counter", "first"))
values.add(handle("counter", "first"), 1)
values.set(handle("int32"), -7)
values.set(handle("int64"), 1 << 40)
values.set(handle("uint64"), 1 << 62)
values.set(handle("float"), 0.25)
values.set(handle("by", "seven"), 1.5)
values.set_string(handle("text"), "hello")
values.set(handle("elapsed"), 1234)
