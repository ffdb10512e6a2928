#ifndef MG_SERVER_VERSION_H
#define MG_SERVER_VERSION_H

/* Results are reused only between equal versions of the optimizer: raise it whenever the search may
 * answer differently. */
#define MG_VERSION "0.1.0"
#define MG_OPTIMIZER_VERSION 1

#endif
