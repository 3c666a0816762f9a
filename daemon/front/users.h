/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_USERS_H
#define GPUCTR_FRONT_USERS_H

#include <stddef.h>
#include <sys/types.h>

/* The name of uid by /etc/passwd, or "uid 1000". For people only: decisions use numbers. Name
 * services are not asked, since they may block. */
void users_name(uid_t uid, char *name, size_t size);

#endif
