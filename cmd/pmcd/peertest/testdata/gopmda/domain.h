#define GOPMDA 400
