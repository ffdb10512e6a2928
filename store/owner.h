/* Files that belong to somebody else: made by root once, say, and in the way of everybody since. */
#ifndef MG_STORE_OWNER_H
#define MG_STORE_OWNER_H

#include <stdbool.h>
#include <stddef.h>

/* Of the path, or of the folder above it that hides it, whose it is and who we are, where it refuses us what we need
 * (R_OK, perhaps with W_OK): "/data/lock belongs to root (mode 600), and this process runs as bob". False, `text`
 * empty: owners are not why. */
bool mg_owner_explain(const char *path, int need, char *text, size_t size);

#endif
