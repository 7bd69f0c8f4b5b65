/* The performance metrics domain of the simple agent. Edit it if another agent
 * has that number, before ./Install. */
#define SIMPLE 253
