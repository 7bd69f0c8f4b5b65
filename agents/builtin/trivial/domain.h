/* The performance metrics domain of the trivial agent. Edit it if another agent
 * has that number, before ./Install. */
#define TRIVIAL 250
