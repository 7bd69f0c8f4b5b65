/* The performance metrics domain of the txmon agent. Edit it if another agent
 * has that number, before ./Install. */
#define TXMON 248
