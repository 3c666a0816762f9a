/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/front/front.h"

/* Accepts on fd, a listening Unix stream socket, until listener_close(). -errno. */
int listener_open(struct listener *l, struct front *f, int fd);
void listener_close(struct listener *l);
