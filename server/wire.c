#include "server/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    struct cmsghdr head;
    char room[CMSG_SPACE(2 * sizeof(int))];
};

bool mg_wire_ask(int socket, const struct mg_wire_question *question, const int fds[2])
{
    size_t args = strlen(question->args) + 1;
    struct iovec part = {(void *)(uintptr_t)question, offsetof(struct mg_wire_question, args) + args};
    union control control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    memset(&control, 0, sizeof control);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(head), fds, 2 * sizeof(int));
    ssize_t sent;
    do
        sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)part.iov_len;
}

int mg_wire_hear(int socket, struct mg_wire_question *question, int fds[2])
{
    struct iovec part = {question, sizeof *question};
    union control control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    ssize_t got;
    do
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return got == 0 ? 0 : -1;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (!head || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(2 * sizeof(int)) ||
        (size_t)got <= offsetof(struct mg_wire_question, args))
        return -1;
    memcpy(fds, CMSG_DATA(head), 2 * sizeof(int));
    question->args[MG_WIRE_ARGS - 1] = '\0';
    return 1;
}
