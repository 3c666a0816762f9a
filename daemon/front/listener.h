/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_LISTENER_H
#define GPUCTR_FRONT_LISTENER_H

#include "daemon/front/front.h"

/* Accepts on fd, a listening Unix stream socket, until listener_close(). -errno. */
int listener_open(struct listener *l, struct front *f, int fd);
void listener_close(struct listener *l);

#endif
