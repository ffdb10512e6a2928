/* The device profiles of users, kept in DIR/devices. */
#ifndef MG_SERVER_DEVICES_H
#define MG_SERVER_DEVICES_H

struct mg_devices;

/* Profiles that cannot be read are left out, with a line in the log. data_dir may be NULL. */
struct mg_devices *mg_devices_load(const char *data_dir);
void mg_devices_free(struct mg_devices *devices);

#endif
