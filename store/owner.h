/* Files that belong to somebody else: made by root once, say, and in the way of everybody since. */
#ifndef MG_STORE_OWNER_H
#define MG_STORE_OWNER_H

#include <stdbool.h>
#include <stddef.h>

/* After an access that was refused: of the path, or of the folder above it that hides it, whose it is and who we are:
 * "/data/lock belongs to root (mode 600), and this process runs as bob". False, `text` empty: owners are not why. */
bool mg_owner_explain(const char *path, char *text, size_t size);

#endif
