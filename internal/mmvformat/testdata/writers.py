#!/usr/bin/python3
# Writes python_v1.mmv to the directory in its argument with PCP's Python module
# (Debian's python3-pcp 6.0.3): ./writers.py $PWD
import sys
import cmmv as mmvapi
import cpmapi as pcpapi
from pcp import mmv, pmapi

indom = mmv.mmv_indom(serial=61, shorttext="short text of 61", helptext="long text of 61")
indom.set_instances([mmv.mmv_instance(0, "zero"), mmv.mmv_instance(1, "one")])

values = mmv.MemoryMappedValues(sys.argv[1] + "/python_v1.mmv", flags=mmvapi.MMV_FLAG_SENTINEL, cluster=31)
values.add_indoms([indom])
values.add_metrics([
    mmv.mmv_metric(name="insts.u64", item=7, typeof=mmvapi.MMV_TYPE_U64, semantics=mmvapi.MMV_SEM_COUNTER,
                   dimension=pmapi.pmUnits(0, 0, 1, 0, 0, pcpapi.PM_COUNT_ONE), indom=61,
                   shorttext="short text", helptext="long text"),
    mmv.mmv_metric(name="double", item=8, typeof=mmvapi.MMV_TYPE_DOUBLE, semantics=mmvapi.MMV_SEM_INSTANT,
                   dimension=pmapi.pmUnits(0, 1, 0, 0, pcpapi.PM_TIME_USEC, 0)),
    mmv.mmv_metric(name="string", item=9, typeof=mmvapi.MMV_TYPE_STRING, semantics=mmvapi.MMV_SEM_INSTANT,
                   dimension=pmapi.pmUnits()),
])
values.start()
values.set(values.lookup_mapping("insts.u64", "one"), 41)
values.inc(values.lookup_mapping("insts.u64", "one"))
values.set(values.lookup_mapping("double", None), 2.5)
values.set_string(values.lookup_mapping("string", None), "text")
