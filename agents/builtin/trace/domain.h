/* Domain of the trace agent. */
#define TRACE 10
