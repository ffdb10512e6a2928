/* Media types of bodies that hold a graph. */
#ifndef MG_SERVER_MEDIA_H
#define MG_SERVER_MEDIA_H

/* How the body is to be read, by its Content-Type. */
enum mg_media { MG_MEDIA_JSON, MG_MEDIA_ONNX, MG_MEDIA_MULTIPART, MG_MEDIA_COUNT };
/* The media type of a Content-Type header (parameters are ignored), or MG_MEDIA_COUNT. */
enum mg_media mg_media_of(const char *content_type);
const char *mg_media_name(enum mg_media media);

#endif
